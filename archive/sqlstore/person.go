package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/mail"
	"strings"
	"time"
)

// A Person belongs to the account that pays for its keys, and is a member of workspaces of any account.
type Person struct {
	ID        string
	AccountID string
	Email     string // lower-case, unique
	CreatedAt time.Time
}

const personColumns = "id, account_id, email, created_at"

func scanPerson(row scanner, p *Person) error {
	return row.Scan(&p.ID, &p.AccountID, &p.Email, instant{&p.CreatedAt})
}

// AddPerson adds a person to an account, and to any number of workspaces. If a bare workspace name is ambiguous, the account's own
// workspace is preferred.
func (s *Store) AddPerson(ctx context.Context, account, email string, workspaces []string) (p Person, err error) {
	if email, err = cleanEmail(email); err != nil {
		return p, err
	}
	defer wrap(&err, "add person %q", email)
	p = Person{ID: newID(), Email: email, CreatedAt: s.clock()}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		a, err := findAccount(ctx, tx, account)
		if err != nil {
			return change{}, err
		}
		p.AccountID = a.ID
		err = insert(ctx, tx, &ExistsError{"person", email},
			"INSERT INTO people ("+personColumns+") VALUES ($1, $2, $3, $4)", p.ID, p.AccountID, p.Email, p.CreatedAt.UnixMilli())
		if err != nil {
			return change{}, err
		}
		for _, workspace := range workspaces {
			joined, err := join(ctx, tx, p, workspace)
			if err != nil {
				return change{}, err
			}
			if err := s.record(ctx, tx, joined); err != nil {
				return change{}, err
			}
		}
		return change{action: "person.add", subject: p.ID, account: p.AccountID, details: details{"email": p.Email}}, nil
	})
	return p, err
}

// JoinWorkspace makes a person a member of a workspace, with access to its properties. It is idempotent.
func (s *Store) JoinWorkspace(ctx context.Context, person, workspace string) (err error) {
	defer wrap(&err, "add %q to workspace %q", person, workspace)
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := findPerson(ctx, tx, person)
		if err != nil {
			return change{}, err
		}
		return join(ctx, tx, p, workspace)
	})
}

// join changes nothing if the person is already a member.
func join(ctx context.Context, tx *sql.Tx, p Person, workspace string) (change, error) {
	w, err := findWorkspace(ctx, tx, workspace, p.AccountID)
	if err != nil {
		return change{}, err
	}
	added, err := affected(ctx, tx,
		"INSERT INTO memberships (person_id, workspace_id) VALUES ($1, $2) ON CONFLICT (person_id, workspace_id) DO NOTHING",
		p.ID, w.ID)
	if err != nil || added == 0 {
		return change{}, err
	}
	return w.memberChange("workspace.member.add", p), nil
}

// LeaveWorkspace ends a person's membership in a workspace, and with it the access of the person's keys. It returns a NotFoundError if
// the person is not a member.
func (s *Store) LeaveWorkspace(ctx context.Context, person, workspace string) (err error) {
	defer wrap(&err, "remove %q from workspace %q", person, workspace)
	return s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		p, err := findPerson(ctx, tx, person)
		if err != nil {
			return change{}, err
		}
		w, err := findOwnWorkspace(ctx, tx, p, workspace)
		if err != nil {
			return change{}, err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM memberships WHERE person_id = $1 AND workspace_id = $2", p.ID, w.ID)
		return w.memberChange("workspace.member.remove", p), err
	})
}

// PersonWorkspaces lists the workspaces of a person, oldest first.
func (s *Store) PersonWorkspaces(ctx context.Context, person string) ([]Workspace, error) {
	p, err := findPerson(ctx, s.overview, person)
	if err != nil {
		return nil, err
	}
	return ownWorkspaces(ctx, s.overview, p)
}

// findOwnWorkspace resolves a reference among the workspaces of the person.
func findOwnWorkspace(ctx context.Context, q querier, p Person, reference string) (Workspace, error) {
	own, err := ownWorkspaces(ctx, q, p)
	if err != nil {
		return Workspace{}, err
	}
	w, err := pickWorkspace(reference, own, p.AccountID)
	if errors.As(err, new(*NotFoundError)) {
		return Workspace{}, &NotFoundError{"workspace of " + p.Email, reference}
	}
	return w, err
}

func ownWorkspaces(ctx context.Context, q querier, p Person) (_ []Workspace, err error) {
	defer wrap(&err, "list the workspaces of %s", p.Email)
	return all(ctx, q, scanWorkspace, selectWorkspaces+
		"JOIN memberships m ON m.workspace_id = w.id WHERE m.person_id = $1 ORDER BY w.created_at, w.id", p.ID)
}

// People lists all people, oldest first.
func (s *Store) People(ctx context.Context) (_ []Person, err error) {
	defer wrap(&err, "list people")
	return all(ctx, s.overview, scanPerson, "SELECT "+personColumns+" FROM people ORDER BY created_at, id")
}

// Person returns the person with this id or e-mail address, case-insensitively.
func (s *Store) Person(ctx context.Context, reference string) (Person, error) {
	return findPerson(ctx, s.overview, reference)
}

func findPerson(ctx context.Context, q querier, reference string) (Person, error) {
	return find(ctx, q, scanPerson, &NotFoundError{"person", reference},
		"SELECT "+personColumns+" FROM people WHERE id = $1 OR email = $1", strings.ToLower(reference))
}

// cleanEmail validates a bare e-mail address, and returns it in lower case.
func cleanEmail(email string) (string, error) {
	address, err := mail.ParseAddress(email)
	if err != nil || address.Address != email || len(email) > maxEmailLength {
		return "", &InputError{"e-mail", fmt.Sprintf("%q must be an address like name@example.com", email)}
	}
	return strings.ToLower(email), checkText("e-mail", email, maxEmailLength)
}
