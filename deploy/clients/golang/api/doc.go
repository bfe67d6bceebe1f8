// Package api is the Go client that is generated from the OpenAPI document; client.go is not committed.
package api

import _ "github.com/oapi-codegen/runtime" // keeps it in go.mod while client.go, which imports it, is not generated
