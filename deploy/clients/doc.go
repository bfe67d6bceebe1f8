// Package clients proves the OpenAPI document by using it: its test has stock generators make a Go client and a TypeScript
// client of the document that the built binary prints, compiles both, and calls a demo with them.
//
// It is a module of its own, so that no generator is among sara's dependencies, and knows sara as a binary only. What is
// generated stays in folders that are not committed: golang/api/client.go and typescript/generated. What is not: the
// callers, golang/client_test.go and typescript/client.test.ts, which are samples of how such clients are used.
package clients
