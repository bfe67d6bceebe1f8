// Package clients tests the OpenAPI document by using it: stock generators make a Go client and a TypeScript client from the
// document that the built binary prints. The test compiles both, and calls a demo with them.
//
// It is a separate module, so that sara does not depend on the generators. The generated files, golang/api/client.go and
// typescript/generated, are not committed. golang/client_test.go and typescript/client.test.ts, which call them, are examples of
// how to use such clients.
package clients
