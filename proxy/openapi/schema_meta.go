package openapi

import "sara/translate"

func requestIDMember() member {
	return member{name: "request_id", schema: text("Identifies the request; quote it when you ask for support.").
		like("req_6e8b96f243eb5292ac14fe259602aeef")}
}

func propertyIDMember() member {
	return member{name: "property_id", schema: uuid("The property that the request resolved to.")}
}

func notesMember() member {
	return member{name: "notes", schema: listOf(text("A line that explains the answer."))}
}

func rowCountMember() member {
	return member{name: "row_count", schema: whole("Rows returned.").like(1)}
}

// pageMembers say which rows of a list a page has.
func pageMembers(limit int, total string) []member {
	return []member{
		{name: "limit", schema: whole("The limit applied.").like(limit)},
		{name: "offset", schema: whole("The rows skipped.").like(0)},
		{name: "total", schema: whole(total).like(1)},
	}
}

func metaSchema() schema { return object(requestIDMember()).named("Meta") }

func countMetaSchema() schema { return object(requestIDMember(), rowCountMember()).named("CountMeta") }

func pageMetaSchema() schema {
	return object(append([]member{requestIDMember(), rowCountMember()}, pageMembers(50, "How many there are in all.")...)...).named("PagedMeta")
}

func propertyMetaSchema() schema {
	return object(requestIDMember(), propertyIDMember(), notesMember()).named("PropertyMeta")
}

func listMetaSchema() schema {
	return object(requestIDMember(), propertyIDMember(), notesMember(), rowCountMember()).named("ListMeta")
}

func performanceMetaSchema() schema { return object(performanceMembers()...).named("PerformanceMeta") }

func tableMetaSchema() schema {
	return object(append(performanceMembers(),
		member{name: "has_more", schema: boolean("Whether rows beyond the last one exist, in any order. False on a page without rows.").like(true)},
		member{name: "offset", optional: true, schema: whole("The rows skipped; absent on the first page.").like(1000)})...).named("TableMeta")
}

func portfolioMetaSchema() schema {
	members := append([]member{requestIDMember(), appliedRangeMember(), rowCountMember()}, pageMembers(50, "How many properties there are in all.")...)
	return object(append(members, member{name: "source", schema: sourceSchema().orNull()}, cacheMember(), notesMember())...).named("PortfolioMeta")
}

func performanceMembers() []member {
	return []member{requestIDMember(), propertyIDMember(), notesMember(),
		appliedRangeMember(),
		member{name: "row_count", schema: whole("Rows returned; null for totals.").orNull().like(1)},
		member{name: "limit", schema: whole("The limit applied; null where there is none.").orNull().like(100)},
		member{name: "total", schema: whole("Always null: Search Console does not report how many rows there are.").orNull().with("const", nil)},
		member{name: "truncated_by", schema: text("The ranking by which rows were cut off; null if none were.").
			with("enum", []string{"clicks"}).named("Truncation").orNull()},
		member{name: "source", schema: sourceSchema()},
		member{name: "stale_reason", schema: text("Why the answer is not fresh; null when it is.").orNull().with("examples", []any{nil})},
		cacheMember()}
}

func appliedRangeMember() member {
	return member{name: "date_range", schema: object(append(rangeMembers(),
		member{name: "preset", schema: text("The relative range, or custom.").
			with("enum", append(translate.Presets(), translate.PresetCustom)).like(translate.DefaultPreset)})...).named("AppliedRange")}
}

func sourceSchema() schema {
	return text("Where the figures come from: live is complete, stored and hybrid are not current.").
		with("enum", []string{string(translate.SourceLive), string(translate.SourceArchive), string(translate.SourceHybrid)}).named("Source")
}

// aboutCache is about meta.cache and X-Cache.
const aboutCache = "hit: the answer needed no live call; miss: it needed one, or was read from the archive; bypass: it has no cache, or no-cache made a call."

func cacheMember() member {
	return member{name: "cache", schema: text(aboutCache).
		with("enum", []string{"hit", "miss", "bypass"}).named("CacheUse")}
}

func indexMetaSchema() schema { return object(indexMetaMembers()...).named("IndexingMeta") }

func urlsMetaSchema() schema {
	members := append(indexMetaMembers(), rowCountMember())
	return object(append(members, pageMembers(100, "How many inspected URLs match in all.")...)...).named("IndexedURLsMeta")
}

func indexMetaMembers() []member {
	return []member{requestIDMember(), propertyIDMember(), notesMember(),
		{name: "source", schema: text("Results are collected once a day: they are not current.").with("const", string(translate.SourceArchive))},
		{name: "cache", schema: text("There is no response cache behind the answer.").with("const", "bypass")}}
}
