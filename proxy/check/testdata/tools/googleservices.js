// Stand-ins for the services of Apps Script, as far as the samples of the guide to the tools use them. UrlFetchApp sends real requests.
// That the samples call the services as Google declares them is checked by TypeScript.
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");

const store = (values) => ({
  getProperty: (name) => values[name] ?? null,
  setProperty: (name, value) => (values[name] = value),
  deleteProperty: (name) => delete values[name],
});
const userProperties = store({});
const PropertiesService = { getScriptProperties: () => store(process.env), getUserProperties: () => userProperties };

const UrlFetchApp = {
  fetch(url, { headers, muteHttpExceptions }) {
    const lines = Object.entries(headers).flatMap(([name, value]) => ["--header", name + ": " + value]);
    const out = execFileSync("curl", ["--silent", "--show-error", "--write-out", "\n%{http_code}", ...lines, url], { encoding: "utf8", maxBuffer: 2 ** 26 });
    const end = out.lastIndexOf("\n");
    const status = Number(out.slice(end + 1));
    if (status >= 400 && !muteHttpExceptions) throw new Error(url + " is answered with " + status);
    return { getResponseCode: () => status, getContentText: () => out.slice(0, end) };
  },
};

const Utilities = {
  parseCsv(text) {
    const rows = [];
    for (const line of text.trimEnd().split("\r\n")) { // no key has a line break
      rows.push([...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain));
    }
    return rows;
  },
};

const sheet = {
  clearContents() {},
  getRange: (row, column, height, width) => ({
    setValues(rows) {
      assert.equal(rows.length, height);
      for (const cells of rows) assert.equal(cells.length, width);
      console.log(row, column, height, width, rows[0].join(" "));
    },
  }),
};
const SpreadsheetApp = { getActive: () => ({ getSheetByName: () => null, insertSheet: () => sheet }) };

// A builder has a setter for each name, which keeps a value that is not undefined.
function builder(...names) {
  const made = { values: {}, build: () => made.values };
  for (const name of names) {
    made["set" + name] = (value) => {
      assert.notEqual(value, undefined, name);
      made.values[name] = value;
      return made;
    };
  }
  return made;
}

class UserError extends Error {}

function fieldsOfConnector(list) {
  const add = (kind) => {
    const field = builder("Id", "Name", "Type", "Aggregation", "Formula", "IsHidden");
    field.values.Kind = kind;
    field.getId = () => field.values.Id;
    list.push(field);
    return field;
  };
  return {
    newDimension: () => add("dimension"),
    newMetric: () => add("metric"),
    asArray: () => list,
    forIds: (ids) => fieldsOfConnector(ids.map((id) => list.find((field) => field.getId() === id))),
    build: () => list.map((field) => field.build()),
  };
}

function configOfConnector() {
  const config = builder("DateRangeRequired");
  config.values.entries = [];
  const add = (...names) => {
    const entry = builder(...names);
    config.values.entries.push(entry.values);
    return entry;
  };
  config.newOptionBuilder = () => builder("Label", "Value");
  config.newTextInput = () => add("Id", "Name", "Placeholder");
  config.newSelectSingle = () => {
    const select = add("Id", "Name");
    select.values.options = [];
    select.addOption = (option) => select.values.options.push(option.build());
    return select;
  };
  return config;
}

const anyName = new Proxy({}, { get: (_, name) => name });
const connector = {
  AuthType: anyName,
  FieldType: anyName,
  AggregationType: anyName,
  newAuthTypeResponse: () => builder("AuthType", "HelpUrl"),
  newSetCredentialsResponse: () => builder("IsValid"),
  newGetSchemaResponse() {
    const response = builder("Fields");
    return Object.assign(response, { build: () => ({ schema: response.values.Fields.build() }) });
  },
  newUserError() {
    const error = builder("Text", "DebugText");
    return Object.assign(error, { throwException() { throw new UserError(error.values.Text); } });
  },
  getConfig: configOfConnector,
  getFields: () => fieldsOfConnector([]),
};
const DataStudioApp = { createCommunityConnector: () => connector };
