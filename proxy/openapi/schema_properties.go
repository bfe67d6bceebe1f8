package openapi

func siteMember() member {
	return member{name: "gsc_property",
		schema: text("Its full string in Search Console: sc-domain:example.com or a URL prefix.").like("sc-domain:example.com")}
}

func slugMember() member {
	return member{name: "slug", schema: text("A short name, which {id} takes too; unique in a workspace.").like("example-com")}
}

func propertyMembers() []member {
	return []member{
		{name: "id", schema: uuid("The property.")},
		siteMember(),
		{name: "display_name", schema: text("Its name for people.").like("Example")},
		{name: "type", schema: text("The kind of property in Search Console.").with("enum", []string{"domain", "url_prefix"}).named("PropertyType")},
		{name: "archived", schema: boolean("Archived properties serve stored history only.")},
	}
}

// propertyRowSchema has its members in the order of propertyRow.
func propertyRowSchema() schema {
	shared := propertyMembers()
	id, site, displayName, kind, archived := shared[0], shared[1], shared[2], shared[3], shared[4]
	return object(id, site, displayName,
		slugMember(),
		kind,
		member{name: "permission_level", schema: text("Search Console's own word, such as siteOwner.").like("siteOwner")},
		member{name: "starred", schema: boolean("Marked by its people.")},
		archived,
		member{name: "created_at", schema: instant("When it was connected.")}).named("PropertyRow")
}

func propertySchema() schema {
	return object(append(propertyMembers(),
		member{name: "data_window", schema: object(
			member{name: "latest_data_date", schema: day("The last day with figures that the key can read.").like("2026-11-19")},
			member{name: "earliest_data_date", schema: day("The first day with figures that the key can read.").like("2023-11-20")},
			member{name: "live_window_months", schema: whole("How far back Search Console keeps data.").like(16)},
			member{name: "retention_months", schema: whole("How far back the plan allows ranges.").like(36)}).named("DataWindow")},
		member{name: "connection", schema: object(
			member{name: "healthy", schema: boolean("Whether Search Console answered when it was last asked.")},
			member{name: "note", schema: text("Why it did not; null when it did.").orNull()}).named("Connection")},
		member{name: "last_archived_date", schema: day("The last day that is stored; null while nothing is.").orNull()})...).named("Property")
}

func brandTermSchema() schema {
	return object(
		member{name: "id", schema: uuid("The term.")},
		member{name: "term", schema: text("A word or phrase, or an RE2 expression.").like("example")},
		member{name: "match_type", schema: text("How queries match it.").with("enum", []string{"contains", "exact", "regex"})},
		member{name: "created_at", schema: instant("When it was added.")}).named("BrandTerm")
}

func pageGroupSchema() schema {
	rule := object(
		member{name: "type", schema: text("How pages match.").with("enum", []string{"prefix", "contains", "equals", "regex"})},
		member{name: "value",
			schema: text("Matched against the page's URL; one that starts with a slash, by prefix or equals, against its path.").like("/blog/")}).
		named("PageGroupRule")
	return object(
		member{name: "id", schema: uuid("The group.")},
		member{name: "name", schema: text("What the page_group filter calls it.").like("Blog")},
		member{name: "rules", schema: listOf(rule).with("description", "A page is in the group if any of them matches.")},
		member{name: "created_at", schema: instant("When it was added.")}).named("PageGroup")
}

func annotationSchema() schema {
	return object(
		member{name: "id", schema: uuid("The annotation.")},
		member{name: "date", schema: day("The day that it is about.")},
		member{name: "title", schema: text("What happened.").like("New shop system")},
		member{name: "note", schema: text("More about it; may be empty.").like("All addresses were redirected.")},
		member{name: "color", schema: text("For charts.").like("blue")}).named("Annotation")
}
