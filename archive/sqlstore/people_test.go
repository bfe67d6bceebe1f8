package sqlstore

import (
	"strings"
	"testing"

	"sara/policy"
	"sara/translate"
)

func testAccounts(t *testing.T, f *fixture) {
	until := translate.NewDate(2026, 12, 31)
	a := value(f.AddAccount(f.ctx, "acme", "pro", &until))(t)
	b := f.account("Globex GmbH", "trial")
	equal(t, value(f.Accounts(f.ctx))(t), []Account{a, b})
	equal(t, value(f.Account(f.ctx, "acme"))(t), a)
	equal(t, value(f.Account(f.ctx, a.ID))(t), a)
	equal(t, *a.Until, until)

	_, err := f.AddAccount(f.ctx, "acme", "agency", nil)
	equal(t, refusal[*ExistsError](t, err).Name, "acme")

	past := translate.NewDate(2020, 1, 1)
	changed := value(f.SetPlan(f.ctx, b.ID, "agency", &past))(t)
	b.Plan, b.Until = "agency", &past
	equal(t, changed, b)
	changed = value(f.SetPlan(f.ctx, "Globex GmbH", "none", nil))(t)
	equal(t, changed.Until, (*translate.Date)(nil))

	_, err = f.SetPlan(f.ctx, "unknown", "pro", nil)
	equal(t, refusal[*NotFoundError](t, err), &NotFoundError{"account", "unknown"})
	for _, plan := range []string{"", "Pro", "pro plan", strings.Repeat("p", 41)} {
		_, err = f.SetPlan(f.ctx, "acme", plan, nil)
		refused[*InputError](t, err)
	}
}

func testNames(t *testing.T, f *fixture) {
	f.account("acme", "pro")
	for _, name := range []string{"", " acme", "acme\n", "a/b", strings.Repeat("é", 81), "a\xff",
		"0190a8f0-0000-7000-8000-000000000000"} {
		_, err := f.AddAccount(f.ctx, name, "pro", nil)
		equal(t, refusal[*InputError](t, err).Field, "account name")
		_, err = f.AddWorkspace(f.ctx, "acme", name)
		equal(t, refusal[*InputError](t, err).Field, "workspace name")
	}
	f.account(strings.Repeat("é", 80), "pro")
	for _, email := range []string{"", "ann", "Ann <ann@acme.example>", "ann@acme.example, bob@acme.example", "ann@",
		strings.Repeat("a", 250) + "@b.example", strings.Repeat("é", 130) + "@b.example", "a\u0085@b.example"} {
		_, err := f.AddPerson(f.ctx, "acme", email, nil)
		equal(t, refusal[*InputError](t, err).Field, "e-mail")
	}
	f.person("acme", strings.Repeat("a", 244)+"@b.example") // the longest address that can be delivered to
}

func testWorkspaces(t *testing.T, f *fixture) {
	a := f.account("acme", "pro")
	f.account("globex", "pro")
	w := f.workspace("acme", "main")
	other := f.workspace("globex", "main")
	equal(t, w, Workspace{Workspace: policy.Workspace{ID: w.ID, Name: "main"}, AccountID: a.ID, AccountName: "acme", CreatedAt: f.time})
	equal(t, value(f.Workspaces(f.ctx))(t), []Workspace{w, other})
	_, err := f.AddWorkspace(f.ctx, a.ID, "main")
	equal(t, refusal[*ExistsError](t, err).Name, "acme/main")
	for _, reference := range []string{w.ID, "acme/main", a.ID + "/main"} {
		equal(t, value(f.Workspace(f.ctx, reference))(t), w)
	}
	for _, reference := range []string{"", "nothing", "acme/nothing", "nothing/main", "x/acme/main"} {
		_, err := f.Workspace(f.ctx, reference)
		equal(t, refusal[*NotFoundError](t, err).Reference, reference)
	}
}

func testAmbiguousReferences(t *testing.T, f *fixture) {
	var ids []string
	for _, account := range []string{"acme", "globex"} {
		f.account(account, "pro")
		ids = append(ids, f.workspace(account, "main").ID)
	}
	_, err := f.Workspace(f.ctx, "main")
	ambiguous := refusal[*AmbiguousError](t, err)
	equal(t, ambiguous.Candidates, []Candidate{{ids[0], "acme/main"}, {ids[1], "globex/main"}})
	for _, id := range ids {
		if !strings.Contains(err.Error(), id) {
			t.Errorf("%q does not name the candidate %s", err, id)
		}
	}

	f.connection("acme/main", "google")
	second := f.connection("globex/main", "google")
	_, err = f.Connection(f.ctx, "google")
	equal(t, len(refusal[*AmbiguousError](t, err).Candidates), 2)
	_, err = f.Connection(f.ctx, "main/google")
	equal(t, len(refusal[*AmbiguousError](t, err).Candidates), 2)
	for _, reference := range []string{second.ID, "globex/main/google", ids[1] + "/google"} {
		equal(t, value(f.Connection(f.ctx, reference))(t), second)
	}
}

func testPeople(t *testing.T, f *fixture) {
	a := f.account("acme", "pro")
	f.account("globex", "pro")
	own, foreign := f.workspace("acme", "main"), f.workspace("globex", "main")
	f.workspace("globex", "shop")
	p := f.person("acme", "Ann@Acme.example", "main")
	equal(t, p, Person{ID: p.ID, AccountID: a.ID, Email: "ann@acme.example", CreatedAt: f.time})
	// An ambiguous bare name is resolved to the person's own account.
	equal(t, value(f.PersonWorkspaces(f.ctx, "ANN@acme.example"))(t), []Workspace{own})

	wantNil(t, f.JoinWorkspace(f.ctx, p.Email, "globex/main"))
	wantNil(t, f.JoinWorkspace(f.ctx, p.ID, foreign.ID))
	equal(t, value(f.PersonWorkspaces(f.ctx, p.ID))(t), []Workspace{own, foreign})
	wantNil(t, f.LeaveWorkspace(f.ctx, p.Email, "main"))
	// Now the bare name is no longer ambiguous.
	equal(t, value(f.PersonWorkspaces(f.ctx, p.ID))(t), []Workspace{foreign})
	wantNil(t, f.LeaveWorkspace(f.ctx, p.Email, "main"))
	equal(t, value(f.PersonWorkspaces(f.ctx, p.ID))(t), []Workspace{})
	refused[*NotFoundError](t, f.LeaveWorkspace(f.ctx, p.Email, "shop"))
	refused[*NotFoundError](t, f.JoinWorkspace(f.ctx, "bob@acme.example", "shop"))

	_, err := f.AddPerson(f.ctx, "globex", "ann@ACME.example", nil)
	refused[*ExistsError](t, err)
	// A person with an unknown workspace is not added.
	_, err = f.AddPerson(f.ctx, "acme", "bob@acme.example", []string{"main", "nowhere"})
	refused[*NotFoundError](t, err)
	equal(t, value(f.People(f.ctx))(t), []Person{p})
}
