package gscsim

import (
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
)

// AuthorizedUserJSON returns the credential file of a user after consent, in Google's format.
func (u User) AuthorizedUserJSON() ([]byte, error) {
	return credentialFile(u, struct {
		Type         string `json:"type"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		RefreshToken string `json:"refresh_token"`
	}{"authorized_user", u.ClientID, u.ClientSecret, u.RefreshToken})
}

// ServiceAccountJSON returns the credential file of a service account, in Google's format. The private key must match u.PublicKey;
// tokenURI is the URL of the simulator's token endpoint.
func (u User) ServiceAccountJSON(key *rsa.PrivateKey, tokenURI string) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of %s: %w", u.Email, err)
	}
	id := sha256.Sum256(x509.MarshalPKCS1PublicKey(&key.PublicKey))
	return credentialFile(u, struct {
		Type         string `json:"type"`
		ProjectID    string `json:"project_id"`
		PrivateKeyID string `json:"private_key_id"`
		PrivateKey   string `json:"private_key"`
		ClientEmail  string `json:"client_email"`
		TokenURI     string `json:"token_uri"`
	}{
		"service_account", "gscsim", hex.EncodeToString(id[:20]),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), u.Email, tokenURI,
	})
}

func credentialFile(u User, file any) ([]byte, error) {
	text, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the credentials of %s: %w", u.Email, err)
	}
	return append(text, '\n'), nil
}
