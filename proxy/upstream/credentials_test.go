package upstream

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"strings"
	"testing"
)

const (
	testRefreshToken = "1//refresh-token-of-the-test"
	testClientSecret = "GOCSPX-secret-of-the-test"
)

func newKey(t testing.TB) (*rsa.PrivateKey, string) {
	t.Helper()
	return newKeyOf(t, 2048)
}

func newKeyOf(t testing.TB, bits int) (*rsa.PrivateKey, string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func authorizedUser() map[string]any {
	return map[string]any{
		"type": "authorized_user", "client_id": "client-1", "client_secret": testClientSecret, "refresh_token": testRefreshToken,
	}
}

func serviceAccount(privateKey, tokenURL string) map[string]any {
	return map[string]any{
		"type": "service_account", "project_id": "p", "private_key_id": "k1", "private_key": privateKey,
		"client_email": "robot@p.iam.gserviceaccount.com", "token_uri": tokenURL,
	}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func with(base map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(base)
	changed[name] = value
	return changed
}

func without(base map[string]any, name string) map[string]any {
	changed := maps.Clone(base)
	delete(changed, name)
	return changed
}

// otherTokenURL is a token endpoint of the configuration.
const otherTokenURL = "https://sso.example.com/token"

func TestParseCredentials(t *testing.T) {
	_, key := newKey(t)
	f := func(name string, file map[string]any, want Credentials) {
		t.Run(name, func(t *testing.T) {
			got, err := ParseCredentials(marshal(t, file), otherTokenURL)
			if err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
	f("user by client id", authorizedUser(), Credentials{AuthorizedUser, "client-1"})
	f("user by account", with(authorizedUser(), "account", "me@example.com"), Credentials{AuthorizedUser, "me@example.com"})
	f("user with an empty account", with(authorizedUser(), "account", ""), Credentials{AuthorizedUser, "client-1"})
	for _, url := range append(googleTokenURLs(), otherTokenURL) {
		f("service account of "+url, serviceAccount(key, url), Credentials{ServiceAccount, "robot@p.iam.gserviceaccount.com"})
	}
}

func TestParseCredentialsErrorsNameTheMemberAndNoValue(t *testing.T) {
	_, key := newKey(t)
	t.Setenv("GODEBUG", "rsa1024min=0") // Go generates none so short
	_, short := newKeyOf(t, 512)
	t.Setenv("GODEBUG", "")
	user, robot := authorizedUser(), serviceAccount(key, DefaultTokenURL)
	f := func(name string, file any, want string) {
		t.Run(name, func(t *testing.T) {
			data, ok := file.([]byte)
			if !ok {
				data = marshal(t, file)
			}
			_, err := ParseCredentials(data, otherTokenURL)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Fatalf("got %v, want an error with %q", err, want)
			}
			for _, value := range []string{testRefreshToken, testClientSecret, "client-1", "s3cret", key[40:60]} {
				if strings.Contains(err.Error(), value) {
					t.Errorf("%q holds the value %q", err, value)
				}
			}
		})
	}
	f("empty", []byte(""), "not a JSON object")
	f("null", []byte("null"), "not a JSON object")
	f("array", []byte(`["s3cret"]`), "not a JSON object")
	f("cut short", []byte(`{"type":"authorized_user","client_secret":"s3cret`), "not a JSON object")
	f("no type", without(user, "type"), `"type" is missing`)
	f("type in capitals is another member", map[string]any{"Type": "authorized_user"}, `"type" is missing`)
	f("type not a string", with(user, "type", 5), `"type" is not a string`)
	f("type unknown", with(user, "type", "s3cret"), `"type" is unknown`)
	f("external account", with(user, "type", "external_account"), "external_account is not supported")
	f("installed client secret", map[string]any{"installed": map[string]any{"client_secret": "s3cret"}}, "needs a person's consent")
	f("web client secret", map[string]any{"web": map[string]any{"client_secret": "s3cret"}}, "needs a person's consent")
	f("client_id missing", without(user, "client_id"), `"client_id"`)
	f("client_secret empty", with(user, "client_secret", ""), `"client_secret"`)
	f("client_secret a number", with(user, "client_secret", 12), `"client_secret" is not a string`)
	f("account a number", with(user, "account", 12), `"account" is not a string`)
	f("refresh_token missing", without(user, "refresh_token"), "access_type=offline")
	f("refresh_token null", with(user, "refresh_token", nil), `"refresh_token"`)
	f("client_email missing", without(robot, "client_email"), `"client_email"`)
	f("private_key missing", without(robot, "private_key"), `"private_key"`)
	f("private_key not PEM", with(robot, "private_key", "s3cret"), `"private_key" is not an RSA private key`)
	f("private_key too short", with(robot, "private_key", short), `"private_key" is not an RSA private key of 1024 bits`)
	f("private_key cut", with(robot, "private_key", strings.Replace(key, key[40:60], "", 1)), `"private_key" is not an RSA private key`)
	f("private_key_id a number", with(robot, "private_key_id", 1), `"private_key_id" is not a string`)
	f("token_uri missing", without(robot, "token_uri"), `"token_uri"`)
	for _, other := range []string{"/s3cret", "ftp://s3cret/x", "https://s3cret.example/token", "http://oauth2.googleapis.com/token",
		DefaultTokenURL + "/s3cret", "https://169.254.169.254/s3cret", otherTokenURL + "?s3cret"} {
		f("token_uri "+other, with(robot, "token_uri", other), `"token_uri" is not Google's token endpoint`)
	}
	f("too deep", []byte(`{"type":"service_account","x":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+"}"), "not a JSON object")
	f("too large", with(robot, "universe_domain", strings.Repeat("x", maxCredentials)), "not a JSON object")
}

func FuzzParseCredentials(f *testing.F) {
	f.Add(marshal(f, authorizedUser()))
	f.Add(marshal(f, serviceAccount("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", DefaultTokenURL)))
	f.Add([]byte(`{"installed":{}}`))
	f.Add([]byte(`{"type":null,"web":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCredentials(data, otherTokenURL)
		if (err == nil) != (c != Credentials{}) {
			t.Errorf("credentials %+v with error %v", c, err)
		}
		if err == nil && (c.Identity == "" || (c.Kind != AuthorizedUser && c.Kind != ServiceAccount)) {
			t.Errorf("accepted as %+v", c)
		}
	})
}
