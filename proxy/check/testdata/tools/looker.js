// Calls the connector as Looker Studio does.
const { API_KEY, REVOKED_KEY, PROPERTY, START_DATE, END_DATE } = process.env;

assert.equal(getAuthType().AuthType, "KEY");
assert.equal(isAuthValid(), false);
assert.deepEqual(setCredentials({ key: "nonsense" }), { IsValid: false });
assert.equal(isAuthValid(), false);
assert.deepEqual(setCredentials({ key: API_KEY }), { IsValid: true });
assert.equal(isAuthValid(), true);

const config = getConfig({ languageCode: "en" });
assert.equal(config.DateRangeRequired, true);
assert.deepEqual(config.entries.map((entry) => entry.Id), ["property", "table", "rows"]);
const property = config.entries[0].options.find((option) => option.Label === PROPERTY).Value;
const tables = config.entries[1].options.map((option) => option.Value);
assert.equal(tables.length, 5);

const data = (table, rows, names, range) => getData({
  configParams: { property, table, rows },
  dateRange: { startDate: START_DATE, endDate: END_DATE, ...range },
  fields: names.map((name) => ({ name })),
});
const columns = ({ schema, rows }) => schema.map((field, i) => rows.map(({ values }) => values[i]));
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// Every field of every table has a value in each row, and formulas refer to fields.
for (const table of tables) {
  const { schema } = getSchema({ configParams: { table } });
  const ids = schema.map((field) => field.Id);
  for (const { Formula } of schema) {
    for (const [, id] of Formula?.matchAll(/\$(\w+)/g) ?? []) assert.ok(ids.includes(id), Formula);
  }
  const got = data(table, "50", ids);
  assert.deepEqual(got.schema, schema);
  assert.ok(got.rows.length > 2 && (table === "timeseries" || got.rows.length <= 50), table + " has " + got.rows.length + " rows");
  for (const { values } of got.rows) {
    schema.forEach(({ Kind, Id }, i) => assert.equal(typeof values[i], Kind === "metric" ? "number" : "string", table + " " + Id));
  }
}

// The formulas give the totals of the range.
const [days, clicks, impressions, weighted] = columns(data("timeseries", "", ["date", "clicks", "impressions", "weighted"]));
for (const day of days) assert.match(day, /^2026\d{4}$/);
const { totals } = read("/properties/" + property + "/summary?start_date=" + START_DATE + "&end_date=" + END_DATE).data;
assert.equal(sum(clicks), totals.clicks);
assert.equal(sum(impressions), totals.impressions);
assert.ok(Math.abs(sum(weighted) / sum(impressions) - totals.position) < 1e-6);

// A table of more than one page has every row once.
const [queries] = columns(data("queries", "2500", ["key"]));
assert.ok(queries.length > 1000, queries.length + " queries");
assert.equal(new Set(queries).size, queries.length);
assert.equal(data("queries", "", ["key"]).rows.length, 1000);

// Errors are shown to the user, and a key that is refused is asked for again.
assert.throws(() => data("timeseries", "", ["date"], { startDate: "2027-01-01", endDate: "2027-01-02" }), (error) => error instanceof UserError && /2027-01-01/.test(error.message));
assert.equal(isAuthValid(), true);
keys.setProperty("key", REVOKED_KEY);
assert.throws(() => data("devices", "", ["key"]), (error) => error instanceof UserError && /revoked/.test(error.message));
assert.equal(isAuthValid(), false);
setCredentials({ key: API_KEY });
resetAuth();
assert.equal(isAuthValid(), false);
console.log("the connector works:", days.length, "days,", queries.length, "queries");
