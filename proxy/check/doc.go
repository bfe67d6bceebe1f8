// Package check tests the public API of a running sara demo. The demo's keys, properties and history must be those that it announces. What
// the documentation shows must be true: the examples of proxy/DECISIONS.md and of the API reference, and the guides for tools and agencies.
//
// Most tests use tools that are no dependencies of sara. kin-openapi checks that the served OpenAPI document is valid and describes the
// demo's answers. A headless Chromium reads the API reference. The samples of the guides run in their languages and tools. The official
// conformance tests and TypeScript clients of the Model Context Protocol use the endpoint for agents.
//
// The package is a module of its own, so that only its tests need these tools: cd proxy/check && go test ./...
package check
