package archive

import (
	"fmt"
	"strings"

	"sara/translate"
)

// state is the stored state of one day under one dimension. The letter is the source of the figures, and a capital letter
// marks them as final.
type state byte

const (
	absent         state = '-'
	collected      state = 'c'
	collectedFinal state = 'C'
	imported       state = 'i'
	importedFinal  state = 'I'
)

// Keys of an object's metadata, and the version of its format.
const (
	versionKey    = "sara.format"
	formatVersion = "1"
	propertyKey   = "sara.property_id"
	monthKey      = "sara.month"
	monthLayout   = "2006-01"
	daysKeyPrefix = "sara.days."
	checksumKey   = "sara.checksum"
)

const (
	longestMonth     = 31 // days
	propertyIDLength = 64 // bytes, at most
)

func (s state) isFinal() bool { return s == collectedFinal || s == importedFinal }

// ledger is the metadata of an object: its property and month, and which of its days are archived.
type ledger struct {
	property string
	month    translate.Date // its first day
	states   [dimensionCount][longestMonth]state
}

func newLedger(property string, month translate.Date) ledger {
	l := ledger{property: property, month: month}
	for by := range l.states {
		for day := range l.states[by] {
			l.states[by][day] = absent
		}
	}
	return l
}

// days returns how many days the ledger's month has.
func (l *ledger) days() int { return int(l.month.AddMonths(1) - l.month) }

// isEmpty reports whether no day is archived.
func (l *ledger) isEmpty() bool {
	for by := range l.states {
		for _, s := range l.states[by] {
			if s != absent {
				return false
			}
		}
	}
	return true
}

// objectName returns the name of the object that holds a month.
func objectName(property string, month translate.Date) string {
	return propertyPrefix(property) + "month=" + month.Time().Format(monthLayout) + "/history.parquet"
}

func propertyPrefix(property string) string { return "history/property_id=" + property + "/" }

// parseObjectName returns the month of an object of the property, and whether the name is valid.
func parseObjectName(property, name string) (translate.Date, bool) {
	name, hasPrefix := strings.CutPrefix(name, propertyPrefix(property)+"month=")
	name, hasSuffix := strings.CutSuffix(name, "/history.parquet")
	month, err := translate.ParseDate(name + "-01")
	return month, hasPrefix && hasSuffix && err == nil
}

// checkProperty refuses an ID that cannot be part of an object's name.
func checkProperty(id string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if id == "" || len(id) > propertyIDLength || strings.Trim(id, allowed) != "" {
		return fmt.Errorf("%.80q is not a property id", id)
	}
	return nil
}

// metadata returns the key-value metadata of a Parquet file for the ledger.
func (l *ledger) metadata() map[string]string {
	metadata := map[string]string{
		versionKey:  formatVersion,
		propertyKey: l.property,
		monthKey:    l.month.Time().Format(monthLayout),
	}
	for _, by := range Dimensions() {
		text := make([]byte, l.days())
		for day := range text {
			text[day] = byte(l.states[by][day])
		}
		metadata[daysKeyPrefix+DimensionName(by)] = string(text)
	}
	return metadata
}

// parseLedger reads the metadata of the object that should hold the history of a property and month.
func parseLedger(property string, month translate.Date, lookup func(key string) (string, bool)) (ledger, error) {
	l := newLedger(property, month)
	if version, _ := lookup(versionKey); version != formatVersion {
		return ledger{}, fmt.Errorf("its format is version %.20q: this program supports version %s", version, formatVersion)
	}
	if of, _ := lookup(propertyKey); of != property {
		return ledger{}, fmt.Errorf("it belongs to property %.80q", of)
	}
	if of, _ := lookup(monthKey); of != month.Time().Format(monthLayout) {
		return ledger{}, fmt.Errorf("it belongs to month %.20q", of)
	}
	for _, by := range Dimensions() {
		text, _ := lookup(daysKeyPrefix + DimensionName(by))
		if len(text) != l.days() {
			return ledger{}, fmt.Errorf("its list of the archived days of %s is damaged", DimensionName(by))
		}
		for day, s := range []byte(text) {
			switch s := state(s); s {
			case absent, collected, collectedFinal, imported, importedFinal:
				l.states[by][day] = s
			default:
				return ledger{}, fmt.Errorf("day %d of %s is marked %q", day+1, DimensionName(by), byte(s))
			}
		}
	}
	return l, nil
}
