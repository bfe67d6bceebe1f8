package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sara/policy"
)

// A Workspace contains connections and their properties. Its members may be people of any account.
type Workspace struct {
	policy.Workspace // its name is unique in its account
	AccountID        string
	AccountName      string
	CreatedAt        time.Time
}

const (
	workspaceColumns = "w.id, w.account_id, a.name, w.name, w.created_at"
	fromWorkspaces   = " FROM workspaces w JOIN accounts a ON a.id = w.account_id "
	selectWorkspaces = "SELECT " + workspaceColumns + fromWorkspaces
)

func scanWorkspace(row scanner, w *Workspace) error {
	return row.Scan(&w.ID, &w.AccountID, &w.AccountName, &w.Name, instant{&w.CreatedAt})
}

func (w Workspace) levels() levels { return levels{{w.AccountID, w.AccountName}, {w.ID, w.Name}} }

func (w Workspace) change(action string) change {
	return change{action: action, subject: w.ID, account: w.AccountID, details: details{"name": w.Name}}
}

// memberChange returns a change of the workspace's members. The person may belong to another account.
func (w Workspace) memberChange(action string, p Person) change {
	return change{action: action, subject: w.ID, account: w.AccountID, details: details{"workspace": w.Name, "person": p.ID, "email": p.Email}}
}

// AddWorkspace adds a workspace to an account.
func (s *Store) AddWorkspace(ctx context.Context, account, name string) (w Workspace, err error) {
	if err := checkName("workspace name", name, maxName); err != nil {
		return w, err
	}
	defer wrap(&err, "add workspace %q", name)
	w = Workspace{Workspace: policy.Workspace{ID: newID(), Name: name}, CreatedAt: s.clock()}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		a, err := findAccount(ctx, tx, account)
		if err != nil {
			return change{}, err
		}
		w.AccountID, w.AccountName = a.ID, a.Name
		return w.change("workspace.add"), insert(ctx, tx, &ExistsError{"workspace", a.Name + "/" + name},
			"INSERT INTO workspaces (id, account_id, name, created_at) VALUES ($1, $2, $3, $4)",
			w.ID, w.AccountID, w.Name, w.CreatedAt.UnixMilli())
	})
	return w, err
}

// Workspaces lists the workspaces of all accounts, oldest first.
func (s *Store) Workspaces(ctx context.Context) (_ []Workspace, err error) {
	defer wrap(&err, "list workspaces")
	return all(ctx, s.overview, scanWorkspace, selectWorkspaces+"ORDER BY w.created_at, w.id")
}

// Workspace returns the workspace with this id, NAME or ACCOUNT/NAME.
func (s *Store) Workspace(ctx context.Context, reference string) (Workspace, error) {
	return findWorkspace(ctx, s.overview, reference, "")
}

// findWorkspace prefers the workspace of the account homeID if a bare name is ambiguous.
func findWorkspace(ctx context.Context, q querier, reference, homeID string) (Workspace, error) {
	workspaces, err := all(ctx, q, scanWorkspace, selectWorkspaces+"WHERE w.id = $1 OR w.name = $1 ORDER BY w.created_at, w.id",
		lastPart(reference))
	if err != nil {
		return Workspace{}, fmt.Errorf("find workspace %q: %w", reference, err)
	}
	return pickWorkspace(reference, workspaces, homeID)
}

func pickWorkspace(reference string, workspaces []Workspace, homeID string) (Workspace, error) {
	return pick("workspace", reference, workspaces, func(w Workspace) bool { return w.AccountID == homeID })
}
