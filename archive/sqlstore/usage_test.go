package sqlstore

import (
	"testing"

	"sara/policy"
)

func testUsage(t *testing.T, f *fixture) {
	one, two := f.account("one", "pro"), f.account("two", "pro")
	first := policy.UsageCount{AccountID: one.ID, Hour: 500_001, Day: 20_833, InHour: 3, InDay: 4, Calls: 5}
	second := policy.UsageCount{AccountID: two.ID, Hour: 500_001, Day: 20_833, InHour: 1, InDay: 1}
	generation := f.Generation()
	wantNil(t, f.SaveUsage(f.ctx, []policy.UsageCount{first, second}))
	first.InHour, first.InDay = 7, 8
	wantNil(t, f.SaveUsage(f.ctx, []policy.UsageCount{first}))
	equal(t, value(f.Usage(f.ctx, 20_833))(t), []policy.UsageCount{first, second})
	equal(t, value(f.Usage(f.ctx, 20_834))(t), []policy.UsageCount{})
	equal(t, value(f.UsageOf(f.ctx, 20_833, one.ID, two.ID))(t), []policy.UsageCount{first, second})
	equal(t, value(f.UsageOf(f.ctx, 20_833, one.ID, one.ID))(t), []policy.UsageCount{first})
	equal(t, value(f.UsageOf(f.ctx, 20_833, two.ID, two.ID))(t), []policy.UsageCount{second})
	equal(t, value(f.UsageOf(f.ctx, 20_834, one.ID, two.ID))(t), []policy.UsageCount{})
	equal(t, f.Generation(), generation)

	next := policy.UsageCount{AccountID: one.ID, Hour: 500_025, Day: 20_834, InHour: 1, InDay: 1}
	// An account may have been removed since it was used. That must not keep the usage of the others from being saved.
	removed := policy.UsageCount{AccountID: "removed", Hour: 1, Day: 20_834}
	wantNil(t, f.SaveUsage(f.ctx, []policy.UsageCount{removed, next}))
	equal(t, value(f.Usage(f.ctx, 20_834))(t), []policy.UsageCount{next})
}

func testReplicaUsage(t *testing.T, f *fixture) {
	usage := func(replica, account string, day int64, n int) policy.ReplicaUsage {
		at := policy.UsageCount{AccountID: account, Hour: 24 * day, Day: day}
		u := policy.ReplicaUsage{Replica: replica, Used: at, Local: at, Leased: at, Seen: at, PerHour: 250, PerDay: 1000, CallsPerDay: -1}
		u.Used.InHour, u.Used.InDay, u.Used.Calls, u.Used.Returned = n, 2*n, 3*n, n
		u.Local.InHour, u.Local.InDay, u.Local.Calls, u.Local.Returned = 1, 2, 3, 4
		u.Leased.InHour, u.Leased.InDay = 1, 2
		u.Seen.InHour, u.Seen.InDay, u.Seen.Calls = 5, 6, 7
		return u
	}
	old, one, two := usage("r1", "a", 20_832, 1), usage("r1", "b", 20_833, 2), usage("r2", "a", 20_833, 3)
	equal(t, value(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{old, two}))(t), []policy.ReplicaUsage{old, two})
	equal(t, value(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{one, two}))(t), []policy.ReplicaUsage{one}) // which replaced nothing
	read := value(f.ReplicaUsage(f.ctx, "", 20_833, policy.ReplicaAccount{}, 9))(t)
	equal(t, read, []policy.ReplicaUsage{one, two})
	equal(t, value(f.ReplicaUsage(f.ctx, "r2", 20_833, policy.ReplicaAccount{}, 9))(t), []policy.ReplicaUsage{two})
	three := usage("r2", "b", 20_833, 5)
	value(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{three}))(t)
	after := policy.ReplicaAccount{}
	for _, u := range []policy.ReplicaUsage{one, two, three} { // one at a time
		equal(t, value(f.ReplicaUsage(f.ctx, "", 20_833, after, 1))(t), []policy.ReplicaUsage{u})
		after = policy.ReplicaAccount{Replica: u.Replica, AccountID: u.Used.AccountID}
	}
	equal(t, value(f.ReplicaUsage(f.ctx, "", 20_833, after, 1))(t), []policy.ReplicaUsage{})
	equal(t, value(f.ReplicaUsage(f.ctx, "r2", 20_833, policy.ReplicaAccount{Replica: "r2", AccountID: "a"}, 9))(t), []policy.ReplicaUsage{three})
	wantNil(t, f.DeleteReplicaUsage(f.ctx, []policy.ReplicaUsage{three}, 20_832))

	more := usage("r2", "a", 20_833, 4)
	equal(t, len(value(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{more}))(t)), 0)
	wantNil(t, f.DeleteReplicaUsage(f.ctx, read, 20_833)) // what was saved since then stays
	equal(t, value(f.ReplicaUsage(f.ctx, "", 20_833, policy.ReplicaAccount{}, 9))(t), []policy.ReplicaUsage{more})
	equal(t, value(f.ReplicaUsage(f.ctx, "", 20_832, policy.ReplicaAccount{}, 9))(t), []policy.ReplicaUsage{})
	equal(t, value(f.SaveReplicaUsage(f.ctx, []policy.ReplicaUsage{one}))(t), []policy.ReplicaUsage{one}) // it was deleted
}
