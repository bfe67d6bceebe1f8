package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"sara/translate"
)

// An Account pays for its people's keys.
type Account struct {
	ID        string
	Name      string
	Plan      string
	Until     *translate.Date // last day of the plan, inclusive, in UTC; nil for no end
	CreatedAt time.Time
}

const accountColumns = "id, name, plan, until_day, created_at"

func scanAccount(row scanner, a *Account) error {
	return row.Scan(&a.ID, &a.Name, &a.Plan, &a.Until, instant{&a.CreatedAt})
}

func (a Account) change(action string) change {
	d := details{"name": a.Name, "plan": a.Plan}
	if a.Until != nil {
		d["until"] = a.Until.String()
	}
	return change{action: action, subject: a.ID, account: a.ID, details: d}
}

// CheckAccountName returns the error that AddAccount would return for a name that no database accepts.
func CheckAccountName(name string) error { return checkName("account name", name, maxName) }

// AddAccount adds an account with a plan that lasts through until; nil for no end.
func (s *Store) AddAccount(ctx context.Context, name, plan string, until *translate.Date) (a Account, err error) {
	if err := errors.Join(CheckAccountName(name), checkPlan(plan)); err != nil {
		return a, err
	}
	defer wrap(&err, "add account %q", name)
	a = Account{ID: newID(), Name: name, Plan: plan, Until: until, CreatedAt: s.clock()}
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		return a.change("account.add"), insert(ctx, tx, &ExistsError{"account", name},
			"INSERT INTO accounts ("+accountColumns+") VALUES ($1, $2, $3, $4, $5)",
			a.ID, a.Name, a.Plan, a.Until, a.CreatedAt.UnixMilli())
	})
	return a, err
}

// SetPlan changes the plan of an account, which lasts through until; nil for no end.
func (s *Store) SetPlan(ctx context.Context, account, plan string, until *translate.Date) (changed Account, err error) {
	if err := checkPlan(plan); err != nil {
		return changed, err
	}
	defer wrap(&err, "set the plan of account %q", account)
	err = s.write(ctx, func(ctx context.Context, tx *sql.Tx) (change, error) {
		a, err := findAccount(ctx, tx, account)
		if err != nil {
			return change{}, err
		}
		changed, err = find(ctx, tx, scanAccount, &NotFoundError{"account", account},
			"UPDATE accounts SET plan = $1, until_day = $2 WHERE id = $3 RETURNING "+accountColumns,
			plan, until, a.ID)
		return changed.change("account.plan"), err
	})
	return changed, err
}

// Accounts lists the accounts, oldest first.
func (s *Store) Accounts(ctx context.Context) (_ []Account, err error) {
	defer wrap(&err, "list accounts")
	return all(ctx, s.overview, scanAccount, "SELECT "+accountColumns+" FROM accounts ORDER BY created_at, id")
}

// Account returns the account with this id or name.
func (s *Store) Account(ctx context.Context, reference string) (Account, error) {
	return findAccount(ctx, s.overview, reference)
}

func findAccount(ctx context.Context, q querier, reference string) (Account, error) {
	return find(ctx, q, scanAccount, &NotFoundError{"account", reference},
		"SELECT "+accountColumns+" FROM accounts WHERE id = $1 OR name = $1", reference)
}

func checkPlan(plan string) error {
	if plan == "" || len(plan) > maxPlanName || strings.Trim(plan, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return &InputError{"plan", fmt.Sprintf("%q must be 1 to %d lower-case letters, digits, - and _", plan, maxPlanName)}
	}
	return nil
}
