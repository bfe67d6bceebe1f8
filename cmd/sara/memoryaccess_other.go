//go:build !linux

package main

// protectMemory does nothing: it is for Linux, where sara is deployed.
func protectMemory() error { return nil }
