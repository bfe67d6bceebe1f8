// Package golang calls a demo of sara with the generated client. Its test needs the client, and the build tag generated.
package golang
