// Calls every tool with the official TypeScript clients, and compares the results with the REST API.
//
// Version 1 of the client speaks the revisions that begin with initialize, version 2 the later ones. Both validate each structured result
// against the schema of its tool.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioClientTransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as StreamableHTTPClientTransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const world = JSON.parse(process.env.SARA_DEMO_WORLD);
const calls = JSON.parse(await readFile(new URL("calls.json", import.meta.url)));
const info = { name: "check", version: "1.0.0" };

const versions = {
  "version 1": { client: () => new ClientV1(info), http: StreamableHTTPClientTransportV1, stdio: StdioClientTransportV1, key: world.keys.workspace_scoped },
  "version 2": {
    client: () => new Client(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } }),
    http: StreamableHTTPClientTransport, stdio: StdioClientTransport, key: world.keys.agency,
  },
};

// connect runs a function with a connected client.
async function connect(version, transport, use) {
  const client = version.client();
  await client.connect(transport);
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

const overHTTP = ({ http, key }) =>
  new http(new URL("/mcp", world.base_url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });

const overStdio = ({ stdio, key }) =>
  new stdio({ command: process.env.SARA_PROGRAM, args: ["mcp", "--url", world.base_url], env: { SARA_API_KEY: key }, stderr: "inherit" });

// settled removes what two equal requests do not have in common.
function settled({ data, meta }) {
  delete meta.request_id;
  delete meta.cache;
  delete data.usage;
  return { data, meta };
}

for (const [name, version] of Object.entries(versions)) {
  test(`${name} over HTTP: every tool answers as REST does`, () =>
    connect(version, overHTTP(version), async (client) => {
      const { tools } = await client.listTools();
      const names = tools.map((t) => t.name);
      assert.deepEqual(names.filter((n) => !calls.some((c) => c.tool === n)), [], "tools that calls.json has no call of");
      assert.ok(tools.every((t) => t.annotations.readOnlyHint && t.inputSchema && t.outputSchema));
      for (const call of calls.filter((c) => names.includes(c.tool))) {
        const result = await client.callTool({ name: call.tool, arguments: call.arguments });
        assert.ok(!result.isError, `${call.tool}: ${result.content[0].text}`);
        assert.notEqual(result.content[0].text, "", call.tool);
        if (call.rest === null) continue;
        const answer = await fetch(world.base_url + call.rest, { headers: { Authorization: `Bearer ${version.key}` } });
        assert.deepEqual(settled(result.structuredContent), settled(await answer.json()), call.tool);
      }
    }));

  test(`${name} over HTTP: a refusal is a result`, () =>
    connect(version, overHTTP(version), async (client) => {
      await client.listTools(); // the client validates the results of tools that it knows
      const { isError, structuredContent } = await client.callTool({ name: "get_timeseries", arguments: { property: "nowhere.example" } });
      assert.equal(isError, true);
      assert.equal(structuredContent.error.code, "NOT_FOUND");
    }));

  test(`${name} over stdio`, () =>
    connect(version, overStdio(version), async (client) => {
      const { tools } = await client.listTools();
      assert.ok(tools.length >= 10);
      const [me, properties] = await Promise.all([
        client.callTool({ name: "get_account", arguments: {} }), client.callTool({ name: "list_properties", arguments: {} })]);
      assert.ok(me.structuredContent.data.account.plan_tier && properties.structuredContent.data.rows.length > 0);
    }));
}
