package upstream

import (
	"cmp"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	"sara/translate"
)

// The kinds of credentials, named as Google's "type" member names them.
const (
	AuthorizedUser = "authorized_user"
	ServiceAccount = "service_account"
)

// Credentials describes stored credentials without holding their secrets.
type Credentials struct {
	Kind     string // AuthorizedUser or ServiceAccount
	Identity string // the service account's e-mail; for a user, the account if the file names it, else the client ID
}

// ParseCredentials checks that data is a credentials file this package can use, as Google issues it: a service account's
// key, or an authorized user with a refresh token. A key may name only Google's token endpoints or tokenURL, the one in the
// configuration. Errors name the member at fault and the remedy, never a value.
func ParseCredentials(data []byte, tokenURL string) (Credentials, error) {
	f, err := parseCredentials(data, tokenURL)
	if err != nil {
		return Credentials{}, err
	}
	if f.kind == ServiceAccount {
		return Credentials{Kind: f.kind, Identity: f.clientEmail}, nil
	}
	return Credentials{Kind: f.kind, Identity: cmp.Or(f.account, f.clientID)}, nil
}

// maxCredentials bounds a file in bytes. Google's are under three thousand.
const maxCredentials = 64 << 10

// googleTokenURLs are Google's token endpoints: the current one, and those that older key files name.
func googleTokenURLs() []string {
	return []string{DefaultTokenURL, "https://accounts.google.com/o/oauth2/token", "https://www.googleapis.com/oauth2/v4/token"}
}

// credentials is a parsed file with its secrets. It lives as long as one token refresh.
type credentials struct {
	kind string

	clientID, clientSecret, refreshToken, account string // authorized_user

	clientEmail, privateKey, privateKeyID, tokenURI string // service_account
}

func parseCredentials(data []byte, tokenURL string) (credentials, error) {
	f, err := readCredentials(data, tokenURL)
	if err != nil {
		return credentials{}, fmt.Errorf("credentials: %w", err)
	}
	return f, nil
}

func readCredentials(data []byte, tokenURL string) (credentials, error) {
	members, err := objectOf(data)
	if err != nil {
		return credentials{}, err
	}
	kind, err := stringMember(members, "type")
	if err != nil {
		return credentials{}, err
	}
	switch kind {
	case AuthorizedUser:
		return parseAuthorizedUser(members)
	case ServiceAccount:
		return parseServiceAccount(members, tokenURL)
	default:
		return credentials{}, unusable(kind, members)
	}
}

func parseAuthorizedUser(members map[string]json.RawMessage) (credentials, error) {
	f := credentials{kind: AuthorizedUser}
	var err error
	if f.account, err = stringMember(members, "account"); err != nil {
		return credentials{}, err
	}
	if err = readRequired(members,
		member{"client_id", &f.clientID, "give the file that Google issued, unchanged"},
		member{"client_secret", &f.clientSecret, "give the file that Google issued, unchanged"},
		member{"refresh_token", &f.refreshToken, "consent again with access_type=offline and prompt=consent"},
	); err != nil {
		return credentials{}, err
	}
	return f, nil
}

func parseServiceAccount(members map[string]json.RawMessage, tokenURL string) (credentials, error) {
	f := credentials{kind: ServiceAccount}
	var err error
	if f.privateKeyID, err = stringMember(members, "private_key_id"); err != nil {
		return credentials{}, err
	}
	if err = readRequired(members,
		member{"client_email", &f.clientEmail, "give the key file of a service account, unchanged"},
		member{"private_key", &f.privateKey, "give the key file of a service account, unchanged"},
		member{"token_uri", &f.tokenURI, "give the key file of a service account, unchanged"},
	); err != nil {
		return credentials{}, err
	}
	if !isSigningKey(f.privateKey) {
		return credentials{}, errors.New(`member "private_key" is not an RSA private key of 1024 bits or more, in PEM format; ` +
			"download a new key for the service account")
	}
	if f.tokenURI != tokenURL && !slices.Contains(googleTokenURLs(), f.tokenURI) {
		return credentials{}, notGoogles("token_uri", "token endpoint", DefaultTokenURL)
	}
	return f, nil
}

// unusable explains what is wrong with other files that people mistake for credentials.
func unusable(kind string, members map[string]json.RawMessage) error {
	switch {
	case members["installed"] != nil || members["web"] != nil:
		return errors.New("this is an OAuth client's file, which needs a person's consent: " +
			"run sara connection connect WORKSPACE --client FILE with it, or give the key of a service account")
	case kind == "":
		return errors.New(`member "type" is missing; it must be service_account or authorized_user`)
	case slices.Contains([]string{
		"external_account", "external_account_authorized_user", "impersonated_service_account", "gdch_service_account",
	}, kind):
		return fmt.Errorf("type %s is not supported; use a service account's key or an authorized_user file", kind)
	default:
		return errors.New(`member "type" is unknown; it must be service_account or authorized_user`)
	}
}

// member is a required member: where its value is stored, and the remedy if it is missing.
type member struct {
	name   string
	value  *string
	remedy string
}

// readRequired reads members, and fails at the first that is missing or empty.
func readRequired(members map[string]json.RawMessage, wanted ...member) error {
	for _, m := range wanted {
		text, err := stringMember(members, m.name)
		if err != nil {
			return err
		}
		if text == "" {
			return fmt.Errorf("member %q is missing or empty; %s", m.name, m.remedy)
		}
		*m.value = text
	}
	return nil
}

// objectOf returns the members of a JSON object. It does not decode into a struct, because that decoder folds case and its errors quote
// values.
func objectOf(data []byte) (members map[string]json.RawMessage, err error) {
	if len(data) > maxCredentials || !translate.ValidJSON(data) || json.Unmarshal(data, &members) != nil || members == nil {
		return nil, errors.New("not a JSON object; give the file that Google issued, unchanged")
	}
	return members, nil
}

// stringMember returns "" for a member that is absent or null.
func stringMember(members map[string]json.RawMessage, name string) (string, error) {
	raw, ok := members[name]
	if !ok {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", fmt.Errorf("member %q is not a string", name)
	}
	return text, nil
}

// minKeyBits is the least that crypto/rsa signs with. Google's keys have 2048.
const minKeyBits = 1024

// isSigningKey reports whether text is an RSA key, in PEM, that can sign. One that cannot would count as a failure of the token endpoint.
func isSigningKey(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		key, ok := key.(*rsa.PrivateKey)
		return ok && key.N.BitLen() >= minKeyBits
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	return err == nil && key.N.BitLen() >= minKeyBits
}
