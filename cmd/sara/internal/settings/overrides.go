package settings

import (
	"fmt"
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

func (p *PlanTable) parse(*kong.Tag) error {
	file, err := os.Open(p.text)
	if err != nil {
		return fmt.Errorf("%w; name a YAML file like plans: {own: {requests_per_day: 5000}}, or leave the setting out to use the built-in plans", err)
	}
	p.table, err = policy.ReadPlans(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.text, err)
	}
	return nil
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

func (l *AnomalyList) parse(*kong.Tag) error {
	file, err := os.Open(l.text)
	if err != nil {
		return fmt.Errorf("%w; name a YAML or JSON file with a list of anomalies, or leave the setting out to use the built-in list", err)
	}
	l.list, err = translate.ReadAnomalies(file)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.text, err)
	}
	return nil
}

// List returns the anomalies of the file, nil without one.
func (l AnomalyList) List() translate.Anomalies { return l.list }
