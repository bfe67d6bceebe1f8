// Package plan is a program that says what a rate of requests takes, from what one run of bench/load measured:
//
//	go run ./bench/plan -from load.json [-growth growth.json] [-rate N] [-mix memory=90,misses=10] [-out FILE] [...]
//
// It adds up the measured costs of the parts of a mix (memory hits, misses, stored answers, denials and so on, each in a
// closed loop over the most connections), holds the sum against the mix as it was measured, and multiplies: processors and
// replicas of sara, servers of Redis, upstream calls and the Google Cloud projects that their quota takes, network, database
// look-ups, memory. Then it does so for a thousand requests a second to a million, and names what breaks first in each order
// of magnitude, and what the design does then.
//
// Nothing is measured here. What no run can know, how machines are and who asks, are flags, and are printed with the result.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"sara/bench/internal/report"
)

type options struct {
	assumed
	from, growth string
	out          string
	mix          string
	rate         float64
	properties   int
}

func main() {
	if err := start(os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "plan:", err)
		os.Exit(1)
	}
}

func start(args []string, w io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	p, err := newPlan(o)
	if err != nil {
		return err
	}
	text := p.markdown()
	if o.out != "" {
		if err := os.WriteFile(o.out, text, 0o644); err != nil {
			return err
		}
	}
	_, err = w.Write(text)
	return err
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("plan", flag.ContinueOnError)
	flags.StringVar(&o.from, "from", "", "JSON report of bench/load")
	flags.StringVar(&o.growth, "growth", "", "JSON report of bench/growth, for what looking up keys takes; left out of the sums if not given")
	flags.StringVar(&o.out, "out", "", "file that gets the result as Markdown")
	flags.StringVar(&o.mix, "mix", "", "weights of scenarios, such as memory=90,misses=10; as the report's mix if not given")
	flags.Float64Var(&o.rate, "rate", 5000, "requests a second")
	flags.IntVar(&o.properties, "properties", 1000, "that are asked about in a day, all equally")
	flags.IntVar(&o.cores, "cores", 8, "of a replica, each like one of the machine that measured")
	flags.Float64Var(&o.use, "use", .6, "share of its time that a processor or a network port is busy at most")
	flags.Float64Var(&o.gigabits, "port", 10, "gigabits a second of one network port")
	flags.Float64Var(&o.keyRate, "key-rate", 1, "requests a second of one key that is in use")
	flags.Float64Var(&o.lookups, "look-ups", 20_000, "look-ups by an index that one database answers in a second")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.sites, o.clients, o.clientsPer = o.properties, 10_000, 10 // Redis' maxclients and go-redis' pool, as they are if nobody sets them
	if o.from == "" {
		return o, errors.New("-from is missing: a JSON report, as go run ./bench/load -json FILE leaves it")
	}
	if o.use > 1 || !(min(o.use, o.gigabits, o.keyRate, o.lookups, o.rate) > 0) || min(o.cores, o.properties) < 1 {
		return o, errors.New("every number has to be above zero, and -use at most 1")
	}
	return o, nil
}

// A plan is all that is said.
type plan struct {
	options
	report   *report.Report
	growth   *report.Report // nil if not given
	mix      mix
	measured *report.Measurement // of the report's own mix; nil if it has none
	check    cost                // of the report's own mix, added up from its parts
	model    model
}

func newPlan(o options) (p *plan, err error) {
	p = &plan{options: o}
	if p.report, err = report.Load(o.from); err != nil {
		return nil, err
	}
	if p.mix, p.measured, err = measuredMix(p.report); err != nil {
		return nil, err
	}
	if p.measured != nil {
		if p.check, err = p.mix.blend(p.report); err != nil {
			return nil, err
		}
	}
	if o.mix != "" {
		if p.mix, err = parseMix(o.mix); err != nil {
			return nil, fmt.Errorf("-mix: %w", err)
		}
	}
	if p.mix == nil {
		return nil, fmt.Errorf("%s has no mix: say with -mix what is asked", o.from)
	}
	p.model = model{assumed: o.assumed}
	if p.model.cost, err = p.mix.blend(p.report); err != nil {
		return nil, err
	}
	if own := ownCall(p.report); own > 0 {
		p.model.apart = max(0, own-costOf(busiest(p.report, memoryName)).redis)
	}
	if o.growth != "" {
		if p.growth, err = report.Load(o.growth); err != nil {
			return nil, err
		}
		p.model.lookup = lookupCost(p.growth)
	}
	return p, nil
}

// lookupCost is what a request takes more of sara if its key and its property have to be looked up: between few accounts
// that ask in turn and many. It is zero if that was not measured.
func lookupCost(growth *report.Report) float64 {
	for _, g := range growth.Growth {
		if g.Name == "active" && len(g.Points) > 1 {
			return max(0, g.Points[len(g.Points)-1].By[saraName]-g.Points[0].By[saraName])
		}
	}
	return 0
}
