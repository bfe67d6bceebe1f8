package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"sara/policy"
)

// Kinds of upstream credentials, named as in Google's JSON.
const (
	ServiceAccount = "service_account"
	AuthorizedUser = "authorized_user"
)

// A Connection is an upstream account through which a workspace's properties are read.
type Connection struct {
	policy.Connection
	AccountID     string
	AccountName   string
	WorkspaceID   string
	WorkspaceName string
	Name          string // unique in its workspace
	Kind          string // ServiceAccount or AuthorizedUser
	Identity      string // e-mail address of the service account or the Google account; the OAuth client's ID if the address is unknown
	CreatedAt     time.Time
}

const (
	connectionColumns = "c.id, a.id, a.name, w.id, w.name, c.name, c.kind, c.identity, c.revision, c.healthy, c.note, c.created_at"
	fromConnections   = " FROM connections c JOIN workspaces w ON w.id = c.workspace_id JOIN accounts a ON a.id = w.account_id "
	selectConnections = "SELECT " + connectionColumns + fromConnections
)

func scanConnection(row scanner, c *Connection) error {
	return row.Scan(&c.ID, &c.AccountID, &c.AccountName, &c.WorkspaceID, &c.WorkspaceName, &c.Name, &c.Kind, &c.Identity,
		&c.Revision, &c.Healthy, &c.Note, instant{&c.CreatedAt})
}

func (c Connection) levels() levels {
	return levels{{c.AccountID, c.AccountName}, {c.WorkspaceID, c.WorkspaceName}, {c.ID, c.Name}}
}

func (c Connection) change(action string) change {
	return change{action: action, subject: c.ID, account: c.AccountID,
		details: details{"name": c.Name, "workspace": c.WorkspaceName, "identity": c.Identity, "revision": c.Revision}}
}

// AddConnection adds a connection to a workspace. The credentials are the JSON of a service account or an authorized user as Google
// issues it, and are stored encrypted. The default name is the identity, with a number if it is already in use.
func (s *Store) AddConnection(ctx context.Context, workspace, name string, credentials []byte) (c Connection, err error) {
	kind, identity, err := readCredentials(credentials)
	if err != nil {
		return c, err
	}
	if name != "" {
		if err := checkName("connection name", name, maxLongName); err != nil {
			return c, err
		}
	}
	id := newID()
	sealed, err := s.seal(id, credentials)
	if err != nil {
		return c, fmt.Errorf("encrypt the credentials of %s: %w", identity, err)
	}
	defer wrap(&err, "add connection %q", identity)
	c = Connection{Connection: policy.Connection{ID: id, Revision: 1, Healthy: true}, Kind: kind, Identity: identity,
		CreatedAt: s.clock()}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		w, err := findWorkspace(ctx, tx, workspace, "")
		if err != nil {
			return change{}, err
		}
		c.AccountID, c.AccountName, c.WorkspaceID, c.WorkspaceName = w.AccountID, w.AccountName, w.ID, w.Name
		c.Name, err = firstFree("connection", name, identity, maxLongName, func(name string) (int64, error) {
			return affected(ctx, tx, "INSERT INTO connections (id, workspace_id, name, kind, identity, credentials, revision,"+
				" healthy, note, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"+
				" ON CONFLICT (workspace_id, name) DO NOTHING",
				c.ID, c.WorkspaceID, name, c.Kind, c.Identity, sealed, c.Revision, c.Healthy, c.Note, c.CreatedAt.UnixMilli())
		})
		return c.change("connection.add"), err
	})
	return c, err
}

// ReplaceCredentials replaces the credentials of a connection. It increments the revision, and marks the connection as healthy and
// its properties as readable.
func (s *Store) ReplaceCredentials(ctx context.Context, connection string, credentials []byte) (c Connection, err error) {
	kind, identity, err := readCredentials(credentials)
	if err != nil {
		return c, err
	}
	defer wrap(&err, "replace the credentials of connection %q", connection)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		if c, err = lockConnection(ctx, tx, connection); err != nil {
			return change{}, err
		}
		sealed, err := s.seal(c.ID, credentials)
		if err != nil {
			return change{}, err
		}
		_, err = tx.ExecContext(ctx, "UPDATE connections SET kind = $1, identity = $2, credentials = $3,"+
			" revision = revision + 1, healthy = $4, note = '', unhealthy_since = NULL WHERE id = $5", kind, identity, sealed, true, c.ID)
		if err != nil {
			return change{}, err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE properties SET access_note = '' WHERE connection_id = $1", c.ID); err != nil {
			return change{}, err
		}
		c, err = findConnection(ctx, tx, c.ID)
		return c.change("connection.update"), err
	})
	return c, err
}

// lockConnection returns a connection, and locks its account until the end of the transaction, as removals do: they lock properties
// before their connection, and a change of both in the other order would deadlock.
func lockConnection(ctx context.Context, tx *sql.Tx, reference string) (Connection, error) {
	c, err := findConnection(ctx, tx, reference)
	if err != nil {
		return c, err
	}
	if _, err := lockAccount(ctx, tx, c.AccountID); err != nil {
		return c, err
	}
	return findConnection(ctx, tx, c.ID) // it may have been removed meanwhile
}

// Connections lists the connections of all workspaces, oldest first.
func (s *Store) Connections(ctx context.Context) (_ []Connection, err error) {
	defer wrap(&err, "list connections")
	return all(ctx, s.overview, scanConnection, selectConnections+"ORDER BY c.created_at, c.id")
}

// ConnectionIDs lists the ids of all connections.
func (s *Store) ConnectionIDs(ctx context.Context) (_ []string, err error) {
	defer wrap(&err, "list the ids of connections")
	return all(ctx, s.overview, scalar[string], "SELECT id FROM connections ORDER BY id")
}

// Connection returns the connection with this id, NAME, WORKSPACE/NAME or ACCOUNT/WORKSPACE/NAME.
func (s *Store) Connection(ctx context.Context, reference string) (Connection, error) {
	return findConnection(ctx, s.overview, reference)
}

func findConnection(ctx context.Context, q querier, reference string) (Connection, error) {
	connections, err := all(ctx, q, scanConnection, selectConnections+"WHERE c.id = $1 OR c.name = $1 ORDER BY c.created_at, c.id",
		lastPart(reference))
	if err != nil {
		return Connection{}, fmt.Errorf("find connection %q: %w", reference, err)
	}
	return pick("connection", reference, connections, func(Connection) bool { return false })
}

// SetConnectionHealth records why the upstream refuses a revision of a connection's credentials, or with an empty note that it accepts
// it. changed reports a transition: if many replicas see the same failure, only one gets true. An unhealthy connection keeps its first
// note. If the credentials have been replaced since, nothing changes.
func (s *Store) SetConnectionHealth(ctx context.Context, id string, revision int, note string) (changed bool, err error) {
	healthy := note == ""
	var since *time.Time
	if !healthy {
		since = new(s.clock())
	}
	return s.transition(ctx, "connection", id, "SELECT count(*) FROM connections WHERE id = $1",
		"UPDATE connections SET healthy = $1, note = $2, unhealthy_since = $3 WHERE id = $4 AND revision = $5 AND healthy <> $1",
		healthy, cleanNote(note), optionalMillis(since), id, revision)
}

// transition runs an update that changes one row, or none if the row is already in that state.
func (s *Store) transition(ctx context.Context, kind, id, count, update string, args ...any) (changed bool, err error) {
	err = s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
		rows, err := affected(ctx, tx, update, args...)
		if err != nil {
			return fmt.Errorf("record the state of %s %s: %w", kind, id, err)
		}
		if changed = rows > 0; changed {
			return nextEdition(ctx, tx)
		}
		existing, err := one(ctx, tx, scalar[int], count, id)
		if err != nil {
			return fmt.Errorf("look for %s %s: %w", kind, id, err)
		}
		if existing == 0 {
			return &NotFoundError{kind, id}
		}
		return nil
	})
	if changed { // whether the commit failed or only its reply was lost
		s.generation.Add(1)
	}
	return changed && err == nil, err
}

const selectCredentials = "SELECT credentials FROM connections WHERE id = $1"

// Credentials returns the decrypted JSON of a connection. The bytes belong to the caller. Errors do not name the connection.
func (s *Store) Credentials(ctx context.Context, connectionID string) ([]byte, error) {
	sealed, err := one(ctx, s.properties, scalar[[]byte], selectCredentials, connectionID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &NotFoundError{"connection", connectionID}
	}
	if err != nil {
		return nil, fmt.Errorf("read its credentials: %w", err)
	}
	credentials, _, err := s.unseal(connectionID, sealed)
	if err != nil {
		return nil, fmt.Errorf("decrypt its credentials: %w", err)
	}
	return credentials, nil
}

// readCredentials checks that the JSON is complete, and returns its kind and its identity.
func readCredentials(credentials []byte) (kind, identity string, err error) {
	var c struct {
		Type         string `json:"type"`
		ClientEmail  string `json:"client_email"`
		PrivateKey   string `json:"private_key"`
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		RefreshToken string `json:"refresh_token"`
		Account      string `json:"account"`
	}
	if json.Unmarshal(credentials, &c) != nil { // the parser's message may quote a secret
		return "", "", &InputError{"credentials", "they must be a JSON object as Google issues it"}
	}
	incomplete := func(members string) error {
		return &InputError{"credentials", c.Type + " JSON needs " + members}
	}
	switch c.Type {
	case ServiceAccount:
		if c.ClientEmail == "" || c.PrivateKey == "" {
			return "", "", incomplete("client_email and private_key")
		}
		return c.Type, c.ClientEmail, checkName("client_email", c.ClientEmail, maxLongName)
	case AuthorizedUser:
		if c.ClientID == "" || c.ClientSecret == "" || c.RefreshToken == "" {
			return "", "", incomplete("client_id, client_secret and refresh_token")
		}
		if c.Account != "" {
			return c.Type, c.Account, checkName("account", c.Account, maxLongName)
		}
		return c.Type, c.ClientID, checkName("client_id", c.ClientID, maxLongName)
	}
	return "", "", &InputError{"credentials", `their "type" is neither service_account nor authorized_user`}
}

// firstFree returns the name of the row that add adds; add returns the number of added rows. It is the wanted name, or an error if
// that is in use. Without a wanted name it is the first free one of derived, derived-2, derived-3 and so on, truncated to most
// characters.
func firstFree(kind, wanted, derived string, most int, add func(name string) (int64, error)) (string, error) {
	if wanted != "" {
		added, err := add(wanted)
		if err == nil && added == 0 {
			err = &ExistsError{kind, wanted}
		}
		return wanted, err
	}
	for n := 1; ; n++ {
		name := derived
		if n > 1 {
			number := "-" + strconv.Itoa(n)
			characters := []rune(derived)
			name = string(characters[:min(len(characters), most-len(number))]) + number
		}
		if added, err := add(name); err != nil || added > 0 {
			return name, err
		}
	}
}
