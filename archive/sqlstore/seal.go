package sqlstore

import (
	"errors"

	"sara/policy/keyring"
)

// Credentials are sealed for this purpose, with the connection's ID as additional data, so they cannot be moved to another
// connection within the database.
const credentialsPurpose = "credentials"

func (s *Store) seal(connectionID string, plain []byte) ([]byte, error) {
	if s.sealer == nil {
		return nil, noKeyToSeal()
	}
	return s.sealer.AppendSeal(nil, plain, []byte(connectionID)), nil
}

// unseal also returns which key sealed the credentials, even one it does not have; zero if they do not name it. If no key opens them,
// the error is a *WrongKeyError; without a key it matches ErrNoSecretKey.
func (s *Store) unseal(connectionID string, sealed []byte) (plain []byte, by keyring.ID, err error) {
	by, named := keyring.KeyOf(sealed)
	switch {
	case s.sealer == nil:
		return nil, by, noKeyToOpen(by)
	case named:
		plain, err = s.sealer.AppendOpen(nil, sealed, []byte(connectionID))
	default:
		plain, by, err = s.ring.OpenUnnamed(sealed, []byte(connectionID))
	}
	switch {
	case errors.As(err, new(*keyring.UnknownKeyError)):
		return nil, by, &WrongKeyError{by}
	case err != nil:
		return nil, by, &WrongKeyError{}
	}
	return plain, by, nil
}
