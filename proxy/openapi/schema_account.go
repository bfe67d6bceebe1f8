package openapi

import "sara/policy"

func accountSchema() schema {
	return object(
		member{name: "key", schema: object(
			member{name: "id", schema: uuid("The calling key.")},
			member{name: "scopes", schema: listOf(scopeSchema())},
			member{name: "workspace_scope", schema: object(
				member{name: "id", schema: uuid("The workspace.")},
				member{name: "name", schema: text("Its name.").like("Garden shop")}).
				with("description", "The one workspace that the key reaches; null for a key of every workspace.").
				named("Workspace").orNull()}).
			named("CallingKey")},
		member{name: "account", schema: object(
			member{name: "plan_tier", schema: text("The account's plan.").like("pro")}).named("Plan")},
		member{name: "limits", schema: object(
			member{name: "requests_per_minute_per_key", schema: whole("Requests a minute of one key, as a burst.").like(20)},
			member{name: "requests_per_hour", schema: whole("Of the account.").like(250)},
			member{name: "requests_per_day", schema: whole("Of the account; resets at midnight UTC.").like(1000)},
			member{name: "search_console_calls_per_day", schema: whole("Live calls of the account: queries to Search Console.").like(250)},
			member{name: "live_calls_per_minute_per_property", schema: whole("Live calls about one property, as a burst.").like(30)}).
			named("Limits")},
		member{name: "usage", schema: object(
			member{name: "requests_this_hour", schema: whole("Of the account.").like(12)},
			member{name: "requests_today", schema: whole("Of the account, since midnight UTC.").like(180)},
			member{name: "search_console_calls_today", schema: whole("Of the account, since midnight UTC.").like(40)},
			member{name: "search_console_calls_remaining_today", schema: whole("Of the account, until midnight UTC.").like(210)}).
			named("Usage")}).named("Account")
}

func scopeSchema() schema {
	return text("A scope, which lets a key use a part of the API.").with("enum", policy.AllScopes.Names()).named("Scope")
}
