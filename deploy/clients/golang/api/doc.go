// Package api is the Go client that is generated from the OpenAPI document; client.go is not committed.
package api

import _ "github.com/oapi-codegen/runtime" // what client.go needs, whether or not it is there
