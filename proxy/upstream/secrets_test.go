package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestErrorsHoldNoSecrets(t *testing.T) {
	_, key := newKey(t)
	// The server echoes everything the request carried: headers, form and body.
	echo := func(code int, envelope string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseForm(); err != nil {
				t.Error(err)
			}
			text := r.Header.Get("Authorization") + " " + r.Form.Encode() + " " + r.Form.Get("assertion") + " " +
				r.Form.Get("refresh_token") + " " + r.Form.Get("client_secret")
			status(code, fmt.Sprintf(envelope, text))(w, r)
		}
	}
	const api, oauth = `{"error":{"message":%q,"errors":[{"reason":"x"}]}}`, `{"error":"invalid_grant","error_description":%q}`
	f := func(name string, file func(url string) map[string]any, script, token http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			g := newGoogle(t, script)
			g.token = token
			c, acct := startClient(t, g.config()), account(t, file(g.URL))
			_, queryErr := c.searchAnalytics(t.Context(), acct, site, queryBody, nil)
			_, sitesErr := c.sites(t.Context(), acct)
			_, sitemapsErr := c.sitemaps(t.Context(), acct, site)
			_, inspectErr := c.inspect(t.Context(), acct, site, site, nil)
			for _, err := range []error{queryErr, sitesErr, sitemapsErr, inspectErr} {
				for ; err != nil; err = errors.Unwrap(err) {
					for _, secret := range []string{"access-1", "access-2", testRefreshToken, testClientSecret, key[40:80], "eyJ", "Authorization"} {
						if strings.Contains(err.Error(), secret) {
							t.Errorf("%q holds %q", err, secret)
						}
					}
				}
			}
			if queryErr == nil || sitesErr == nil || sitemapsErr == nil || inspectErr == nil {
				t.Errorf("no error: %v, %v, %v, %v", queryErr, sitesErr, sitemapsErr, inspectErr)
			}
		})
	}
	user := func(string) map[string]any { return authorizedUser() }
	robot := func(url string) map[string]any { return serviceAccount(key, url+"/token") }
	f("refused question", user, echo(400, api), nil)
	f("refused access", user, echo(403, api), nil)
	f("refused token", user, echo(401, api), nil)
	f("header that does not parse", user, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = fmt.Fprintf(conn, "%s\r\n\r\n", r.Header.Get("Authorization"))
		_ = conn.Close() // the end of a broken answer
	}, nil)
	f("token endpoint refuses a user", user, ok(empty), echo(400, oauth))
	f("token endpoint refuses an assertion", robot, ok(empty), echo(400, oauth))
	f("token endpoint answers nonsense", robot, ok(empty), echo(200, `{"expires_in":%q}`))
}
