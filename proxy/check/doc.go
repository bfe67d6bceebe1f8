// Package check tests the public API of a running sara demo with tools that are no dependencies of sara: kin-openapi proves
// that the served OpenAPI document is valid and describes the demo's answers, a headless Chromium reads the API reference, the programs
// of the guides run with their own languages, and the official conformance tests and TypeScript clients of the Model Context Protocol use the
// endpoint for agents.
// It is a module of its own, so that only its tests need these tools: cd proxy/check && go test ./...
package check
