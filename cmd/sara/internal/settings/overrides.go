package settings

import (
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"sara/policy"
	"sara/translate"
)

// PlanTable is a file with plans that override the built-in ones.
type PlanTable struct {
	written
	table policy.Plans
}

func (p *PlanTable) parse(*kong.Tag) (err error) {
	p.table, err = parseFile(p.text, policy.ReadPlans,
		"name a YAML file like plans: {own: {requests_per_day: 5000}}, or leave the setting out to use the built-in plans")
	return err
}

// A fileError is a problem of the file that a setting names.
type fileError struct{ error }

// parseFile reads a file. If it cannot be opened, the error says what to do.
func parseFile[T any](path string, read func(io.Reader) (T, error), remedy string) (value T, err error) {
	file, err := os.Open(path)
	if err != nil {
		return value, fileError{fmt.Errorf("%w; %s", err, remedy)}
	}
	defer func() { _ = file.Close() }() // it was only read
	if value, err = read(file); err != nil {
		return value, fileError{fmt.Errorf("%s: %w", path, err)}
	}
	return value, nil
}

// Table returns the built-in plans, with those of the file over them.
func (p PlanTable) Table() policy.Plans {
	if p.table == nil {
		return policy.DefaultPlans()
	}
	return p.table
}

// AnomalyList is a file with known anomalies.
type AnomalyList struct {
	written
	list translate.Anomalies
}

func (l *AnomalyList) parse(*kong.Tag) (err error) {
	l.list, err = parseFile(l.text, translate.ReadAnomalies,
		"name a YAML or JSON file with a list of anomalies, or leave the setting out to use the built-in list")
	return err
}

// List returns the anomalies of the file, nil without one.
func (l AnomalyList) List() translate.Anomalies { return l.list }
