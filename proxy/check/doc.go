// Package check tests the public API of a running sara demo: its keys, properties and history are those that it announces, and what pages
// show is true, the examples of proxy/DECISIONS.md and of the API reference, and the guides to tools and to agencies. Most of it uses tools
// that are no dependencies of sara: kin-openapi proves that the served OpenAPI document is valid and describes the demo's answers, a headless
// Chromium reads the API reference, the samples of the guides run in their languages and tools, and the official conformance tests and TypeScript
// clients of the Model Context Protocol use the endpoint for agents.
// It is a module of its own, so that only its tests need these tools: cd proxy/check && go test ./...
package check
