// Package api is the Go client that is generated from the OpenAPI document; client.go is not committed.
package api

import _ "github.com/oapi-codegen/runtime" // keeps it in go.mod when client.go, which imports it, has not been generated
