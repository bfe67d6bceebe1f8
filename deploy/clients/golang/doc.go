// Package golang calls a demo of sara with the generated client; its test is built once the client is there, with the tag
// generated.
package golang
