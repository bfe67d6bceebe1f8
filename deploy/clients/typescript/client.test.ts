// Calls a demo of sara with the generated client. What the compiler accepts here is as much a test as what node runs: `pin`
// compiles only if the document's type is the given one.

import assert from "node:assert/strict";
import { test } from "node:test";
import createClient from "openapi-fetch";
import type { components, paths } from "./generated/api.js";

type Schemas = components["schemas"];
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** pin fails to compile unless T is exactly what the document is to say. */
function pin<T, Want>(..._: Same<T, Want> extends true ? [] : ["the types differ"]): void {}

interface World {
  base_url: string;
  keys: Record<string, string>;
  properties: Record<string, { id: string; domain: string; slug: string }>;
}

const world = JSON.parse(process.env["SARA_DEMO_WORLD"] ?? "") as World;

/** A client with one of the demo's keys. It reads JSON: without the second parameter, answers could be CSV too, which is a string. */
function client(key: string) {
  return createClient<paths, "application/json">({ baseUrl: world.base_url, headers: { Authorization: `Bearer ${world.keys[key]}` } });
}

/** The body of a success; a refusal fails the test with what it says. */
function answer<T>(reply: { data?: T; error?: unknown }): T {
  assert.ok(reply.data, `no success: ${JSON.stringify(reply.error)}`);
  return reply.data;
}

const api = client("pro_second");
const id = world.properties["main"]!.id;
const path = { id };

test("account", async () => {
  const reply = await api.GET("/v1/me");
  const { data, meta, success } = answer(reply);
  pin<typeof success, true>();
  pin<typeof data.key.workspace_scope, Schemas["Workspace"] | null>();
  assert.equal(success, true);
  assert.equal(data.account.plan_tier, "pro");
  assert.equal(data.key.workspace_scope, null);
  assert.ok(data.key.scopes.includes("indexing:read"));
  pin<typeof data.limits.live_calls_per_minute_per_property, number>();
  assert.ok(data.limits.live_calls_per_minute_per_property > 0);
  const header = (name: string) => Number(reply.response.headers.get(name) ?? NaN);
  assert.equal(header("X-RateLimit-Limit"), data.limits.requests_per_day);
  assert.ok(header("X-RateLimit-Remaining") < data.limits.requests_per_day);
  assert.ok(header("X-RateLimit-Reset") * 1000 > Date.now());
  assert.equal(reply.response.headers.get("X-Request-Id"), meta.request_id);
});

test("properties", async () => {
  const { data, meta } = answer(await api.GET("/v1/properties", { params: { query: { limit: 1, include_archived: true } } }));
  assert.equal(data.rows.length, 1);
  assert.equal(meta.row_count, 1);
  assert.ok(meta.total > 1);
  assert.ok(data.rows[0] && data.rows[0].slug.length > 0);
  const { domain, slug } = world.properties["main"]!;
  const named = answer(await api.GET("/v1/properties/{id}", { params: { path: { id: slug } } })).data;
  assert.equal(named.id, id);
  const one = answer(await api.GET("/v1/properties/{id}", { params: { path: { id: domain } } })).data;
  pin<typeof one.last_archived_date, string | null>();
  pin<typeof one.type, "domain" | "url_prefix">();
  assert.equal(one.id, id);
  assert.equal(one.type, "domain");
  assert.equal(one.connection.note, null);
  assert.equal(one.data_window.live_window_months, 16);
});

test("performance", async () => {
  const summary = answer(
    await api.GET("/v1/properties/{id}/summary", { params: { path, query: { date_range: "last_7d", compare: "previous_period" } } }),
  );
  pin<typeof summary.meta.limit, number | null>();
  pin<typeof summary.meta.truncated_by, "clicks" | null>();
  pin<typeof summary.meta.source, "live" | "stored" | "hybrid">();
  assert.equal(summary.meta.total, null);
  assert.equal(summary.meta.date_range.preset, "last_7d");
  const before = summary.data.previous;
  assert.ok(before && before.end_date < summary.meta.date_range.start_date);
  const series = answer(await api.GET("/v1/properties/{id}/timeseries", { params: { path, query: { date_range: "last_7d" } } }));
  assert.equal(series.data.rows.length, 7);
  const clicks = series.data.rows.reduce((sum, day) => sum + day.clicks, 0);
  assert.equal(clicks, summary.data.totals.clicks);

  const filters: Schemas["Filter"][] = [
    { dimension: "brand", operator: "is", value: "non-brand" },
    { dimension: "device", operator: "equals", value: "mobile" },
  ];
  const { start_date, end_date } = before;
  const query = { start_date, end_date, limit: 3, order_by: "-impressions", filters: JSON.stringify(filters) } as const;
  const queries = answer(await api.GET("/v1/properties/{id}/queries", { params: { path, query } }));
  pin<typeof queries.data.dimension, "query">();
  assert.equal(queries.data.rows.length, 3);
  assert.equal(queries.meta.row_count, 3);
  pin<typeof queries.meta.has_more, boolean>();
  pin<typeof queries.meta.notes, string[]>();
  assert.equal(queries.meta.has_more, true);
  assert.ok(queries.meta.notes[0]?.startsWith("Brand and non-brand"));
  assert.equal(queries.meta.date_range.preset, "custom");
  const [first, , third] = queries.data.rows;
  assert.ok(first && third && first.impressions >= third.impressions && first.position >= 1);

  const movers = answer(await api.GET("/v1/properties/{id}/movers/queries", { params: { path, query: { limit: 2 } } })).data;
  assert.ok(movers.gainers[0] && movers.gainers[0].clicks_delta > 0);
  assert.ok(movers.losers[0] && movers.losers[0].clicks_change_pct < 0);
});

test("indexing", async () => {
  const { data, meta } = answer(await api.GET("/v1/properties/{id}/indexing", { params: { path, query: { include_trend: true, days: 365 } } }));
  pin<typeof data.trend, Schemas["TrendDay"][] | null>();
  pin<typeof data.totals.indexed, number>();
  pin<typeof meta.source, "stored">();
  assert.equal(data.status, "ready");
  assert.ok(data.trend !== null && data.trend.length > 0);
  assert.ok(data.totals.indexed > 0);
  const urls = answer(await api.GET("/v1/properties/{id}/indexing/urls", { params: { path, query: { bucket: "indexed", limit: 2 } } }));
  assert.equal(urls.data.rows.length, 2);
  pin<(typeof urls.data.rows)[number]["bucket"], Schemas["Bucket"]>();
  assert.ok(urls.data.rows.every((row) => row.bucket === "indexed"));
  assert.ok(data.breakdown[0] && data.breakdown[0].bucket.length > 0);
  assert.equal(urls.meta.total, data.totals.indexed);
  const fresh = answer(await api.GET("/v1/properties/{id}/indexing", { params: { path: { id: world.properties["fresh"]!.id } } })).data;
  assert.notEqual(fresh.status, "ready");
  assert.equal(fresh.totals.indexed, 0);
  assert.equal(fresh.discovery_source, null);
  assert.equal(fresh.trend, null);
});

test("configuration", async () => {
  const terms = answer(await api.GET("/v1/properties/{id}/brand-terms", { params: { path } }));
  assert.equal(terms.data.rows.length, terms.meta.row_count);
  assert.ok(terms.data.rows.some((term) => term.match_type === "regex"));
  const groups = answer(await api.GET("/v1/properties/{id}/page-groups", { params: { path } })).data.rows;
  assert.ok(groups[0] && groups[0].rules[0] && groups[0].rules[0].value.length > 0);
  const notes = answer(await api.GET("/v1/properties/{id}/annotations", { params: { path } })).data.rows;
  assert.ok(notes[0] && notes[1] && notes[0].date < notes[1].date);
});

test("errors", async () => {
  const refused = (reply: { error?: Schemas["Error"]; response: Response }, status: number, code: Schemas["ErrorCode"]) => {
    assert.ok(reply.error, `no typed error ${code}`);
    pin<typeof reply.error.success, false>();
    assert.equal(reply.response.status, status);
    assert.equal(reply.error.success, false);
    assert.equal(reply.error.error.code, code);
    assert.equal(reply.error.error.request_id, reply.response.headers.get("X-Request-Id"));
  };
  refused(await api.GET("/v1/properties/{id}/queries", { params: { path, query: { limit: 0 } } }), 400, "VALIDATION_ERROR");
  refused(await client("expired").GET("/v1/me"), 401, "API_KEY_EXPIRED");
  refused(await client("config_only").GET("/v1/properties/{id}/summary", { params: { path } }), 403, "INSUFFICIENT_SCOPE");
  refused(await api.GET("/v1/properties/{id}", { params: { path: { id: "unknown.example" } } }), 404, "NOT_FOUND");
});
