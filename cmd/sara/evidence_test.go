package main

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"sara/cmd/sara/internal/clitest"
)

func TestEvidenceShowsSecretsInAnyForm(t *testing.T) {
	const secret = "mark/of+the?key"
	for _, text := range []string{"a " + secret + " b", "%x " + hex.EncodeToString([]byte("a"+secret)),
		strings.ToUpper(hex.EncodeToString([]byte(secret))), "key=" + url.QueryEscape(secret), "/" + url.PathEscape(secret),
		"Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+secret)), base64.StdEncoding.EncodeToString([]byte(secret)),
		base64.URLEncoding.EncodeToString([]byte("user:" + secret + "!"))} {
		e := make(clitest.Evidence)
		e.Add("log", text)
		if leaks := e.Leaks(map[string]string{"the key": secret}); len(leaks) == 0 {
			t.Errorf("%q is not found in %q", secret, text)
		}
	}
	e := make(clitest.Evidence)
	e.Add("log", "mark of the key")
	if leaks := e.Leaks(map[string]string{"the key": secret}); len(leaks) != 0 {
		t.Errorf("found in nothing: %v", leaks)
	}
}
