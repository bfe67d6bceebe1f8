package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Search Console's published quotas of search analytics, in calls a minute.
const (
	callsPerProject = 40_000
	callsPerSite    = 1200
)

// assumed is what no measurement says: how machines are, and who asks.
type assumed struct {
	cores      int     // of a replica
	use        float64 // the share of its time that a processor is busy at most
	gigabits   float64 // a second, of one network port
	keyRate    float64 // requests a second of one key that is in use
	lookups    float64 // a second that one database answers
	sites      int     // that are asked about, all equally
	clients    int     // connections that one Redis takes
	clientsPer int     // connections that a replica opens to one Redis, for each of its cores
}

// need is what a rate takes.
type need struct {
	rate          float64 // requests a second
	cores         float64 // of sara, all replicas
	replicas      float64
	redis         float64 // processors of Redis, which has one a server; if batches stay as full as measured
	redisApart    float64 // the same if each request is a call of its own
	connections   float64 // to one Redis
	calls         float64 // of the upstream, a minute
	projects      float64
	gigabits      float64 // a second
	lookups       float64 // of keys and properties, a second
	databases     float64
	notifications float64 // a second: what replicas tell each other, of each fill to each replica
}

// A model says what requests cost, by measurement and by assumption.
type model struct {
	cost
	apart  float64 // more of Redis for each request if it is a call of its own
	lookup float64 // more of sara for a request that looks up its key and its property; 0 if that was not measured
	assumed
}

// sameFor is how long a replica goes by what the database said of a key or a property, while nothing changes; whether it
// does, each replica asks once a second.
const sameFor = 30 * time.Second

// at computes what a rate needs.
func (m model) at(rate float64) need {
	n := need{rate: rate}
	// More replicas see each key more rarely, and look it up more often for it: a few steps settle that.
	asking := 0.0
	for range 20 {
		n.cores = rate * (m.sara + asking*m.lookup) / 1e6
		n.replicas = math.Max(1, math.Ceil(n.cores/(m.use*float64(m.cores))))
		asking = m.asking(rate, n.replicas)
	}
	n.lookups = 2*asking*rate + n.replicas
	n.databases = n.lookups / m.lookups
	n.redis = rate * m.redis / 1e6 / m.use
	n.redisApart = rate * (m.redis + m.apart) / 1e6 / m.use
	n.connections = n.replicas * float64(m.cores*m.clientsPer)
	n.calls = rate * m.upstream * 60
	n.projects = n.calls / callsPerProject
	n.gigabits = rate * m.bytes * 8 / 1e9
	n.notifications = rate * m.upstream * n.replicas
	return n
}

// asking is the share of requests that are the first of their key on their replica in the time that an answer of the
// database is good for, if requests come at random.
func (m model) asking(rate, replicas float64) float64 {
	perKey := math.Min(m.keyRate, rate) / replicas * sameFor.Seconds()
	return (1 - math.Exp(-perKey)) / perKey
}

// A limit is something of which there is one at first.
type limit struct {
	name, then string
	load       func(m model, n need) float64 // above 1 it takes more than one
}

// limits are what may break, and what there is to do then.
func limits() []limit {
	return []limit{
		{"the processors of one replica", "another replica: replicas share nothing but Redis and the database",
			func(m model, n need) float64 { return n.cores / (m.use * float64(m.cores)) }},
		{"the one thread of Redis", "a Redis Cluster: the budgets of an account have one key, which names the account, and what is cached of a property one slot, so both spread",
			func(_ model, n need) float64 { return n.redis }},
		{"the quota of one Google Cloud project", "credentials of several projects: a connection has its own, so accounts spread over projects",
			func(_ model, n need) float64 { return n.projects }},
		{"the quota of a site", "nothing more is to be had of Google: the plan's live calls a minute and property refuse first, and copies up to a day old are served",
			func(m model, n need) float64 { return n.calls / float64(m.sites) / callsPerSite }},
		{"one network port", "several balancers, and compressed answers for who accepts them; a replica carries its share only",
			func(m model, n need) float64 { return n.gigabits / m.gigabits / m.use }},
		{"one database", "copies of PostgreSQL to read from, and a balancer that sends a key to the same replica; or longer than half a minute without looking, for each change is counted and announced anyway",
			func(_ model, n need) float64 { return n.databases }},
		{"the connections of one Redis", "fewer for each replica (pool_size in the Redis URL), or more shards",
			func(m model, n need) float64 { return n.connections / float64(m.clients) }},
	}
}

// A breach is a limit with the least rate at which one is not enough.
type breach struct {
	limit
	rate float64
}

// breaches finds where each limit breaks up to a rate, the first one first.
func (m model) breaches(most float64) (found []breach) {
	for _, l := range limits() {
		if l.load(m, m.at(most)) <= 1 {
			continue
		}
		low, high := 0.0, most
		for high-low > most/1e9 { // every load grows with the rate
			if middle := (low + high) / 2; l.load(m, m.at(middle)) > 1 {
				high = middle
			} else {
				low = middle
			}
		}
		found = append(found, breach{l, high})
	}
	slices.SortStableFunc(found, func(a, b breach) int { return cmp.Compare(a.rate, b.rate) })
	return found
}
