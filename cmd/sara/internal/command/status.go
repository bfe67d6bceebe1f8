package command

import (
	"context"
	"errors"

	"sara/cmd/sara/internal/console"
	"sara/cmd/sara/internal/settings"
	"sara/cmd/sara/internal/status"
)

type statusCommand struct {
	storeFlags
	settings.SharedRows
	settings.Archive
	settings.Admin
	settings.Plans
	console.Output
	Replica []string `sep:"none" placeholder:"URL" help:"Admin endpoints of a replica, such as http://10.0.0.7:9090; may be repeated. Every address of a name is queried. Default: the address of --admin-listen on this machine."`
}

// errAttention makes the command exit with status 1.
var errAttention = errors.New("something needs attention")

func (c *statusCommand) Run(ctx context.Context, con *console.Console) error {
	replicas := c.Replica
	if len(replicas) == 0 {
		replicas = []string{""}
	}
	for i := range replicas {
		var err error
		if replicas[i], err = status.AdminURL(c.AdminListen, replicas[i]); err != nil {
			return usage(err)
		}
	}
	report, err := status.Look(ctx, status.Deployment{Store: c.Store, Rows: c.SharedRows, Archive: c.Archive, Replicas: replicas,
		Plans: c.PlansFile.Table()}, con.Now())
	if err != nil {
		return err
	}
	if c.JSON {
		err = console.PrintJSON(con.Stdout, report)
	} else {
		err = report.Print(console.Text(con.Stdout))
	}
	if err == nil && !report.OK {
		err = errAttention
	}
	return err
}
