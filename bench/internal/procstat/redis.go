package procstat

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis has the counters of a Redis server, excluding the commands of the reading itself.
type Redis struct {
	Commands map[string]Command
	// Reads counts the server's reads from its connections. A pipeline of commands is one read, so this is the number of
	// round trips of clients that wait for replies.
	Reads int64
	CPU   time.Duration // of the process
}

// A Command is the share of one command. The time of a command that a script calls is also part of the script's time.
type Command struct {
	Calls int64
	Took  time.Duration
}

// Calls returns how many commands clients sent: all commands minus those that scripts called. It is exact if
// clients do not send the same commands themselves.
func (r Redis) Calls(inScripts ...string) int64 {
	calls := int64(0)
	for name, command := range r.Commands {
		calls += command.Calls
		for _, inner := range inScripts {
			if name == inner {
				calls -= command.Calls
			}
		}
	}
	return calls
}

func (r Redis) since(before Redis) Redis {
	used := Redis{Commands: maps.Clone(r.Commands), CPU: r.CPU - before.CPU}
	used.Reads = max(0, r.Reads-before.Reads-1) // without the later reading itself
	for name, command := range used.Commands {
		from := before.Commands[name]
		used.Commands[name] = Command{command.Calls - from.Calls, command.Took - from.Took}
		if command.Calls == from.Calls {
			delete(used.Commands, name)
		}
	}
	return used
}

// ReadRedis reads the counters of a server (INFO: commandstats, cpu, stats).
func ReadRedis(ctx context.Context, client redis.Cmdable) (Redis, error) {
	text, err := client.Info(ctx, "commandstats", "cpu", "stats").Result()
	if err != nil {
		return Redis{}, fmt.Errorf("read the counters of Redis: %w", err)
	}
	return parseInfo(text)
}

func parseInfo(text string) (Redis, error) {
	r := Redis{Commands: map[string]Command{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		var err error
		switch command, isCommand := strings.CutPrefix(name, "cmdstat_"); {
		case command == "info" || command == "hello" || strings.HasPrefix(command, "client"): // sent by the reading itself
		case isCommand:
			r.Commands[command], err = parseCommand(value)
		case name == "total_reads_processed":
			r.Reads, err = strconv.ParseInt(value, 10, 64)
		case name == "used_cpu_user", name == "used_cpu_sys":
			var seconds float64
			seconds, err = strconv.ParseFloat(value, 64)
			r.CPU += time.Duration(seconds * float64(time.Second))
		}
		if err != nil {
			return Redis{}, fmt.Errorf("parse the counters of Redis: %q: %w", line, err)
		}
	}
	return r, nil
}

// parseCommand parses calls=1,usec=2,usec_per_call=2.00 and so on.
func parseCommand(value string) (c Command, err error) {
	for part := range strings.SplitSeq(value, ",") {
		name, number, _ := strings.Cut(part, "=")
		switch name {
		case "calls":
			c.Calls, err = strconv.ParseInt(number, 10, 64)
		case "usec":
			var micros int64
			micros, err = strconv.ParseInt(number, 10, 64)
			c.Took = time.Duration(micros) * time.Microsecond
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}
