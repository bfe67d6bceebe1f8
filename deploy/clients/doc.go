// Package clients tests the OpenAPI document by using it: stock generators make a Go client and a TypeScript client from the
// document that the built binary prints. The test compiles both, and calls a demo with them.
//
// golang/client_test.go and typescript/client.test.ts show how to use the clients, which are not committed. These commands, in
// this folder, write golang/api/client.go and typescript/generated/api.d.ts (for openapi-fetch):
//
//	curl -o openapi.json https://api.example.com/v1/openapi.json
//	go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen -config golang/api/generate.yaml openapi.json
//	(cd typescript && npm ci && npx openapi-typescript ../openapi.json --output generated/api.d.ts)
//
// It is a separate module, so that sara does not depend on the generators.
package clients
