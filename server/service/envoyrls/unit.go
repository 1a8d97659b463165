package envoyrls

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A Unit is the period of a limit, numbered as in the protocol.
type Unit uint8

// The units. A month has 30 days and a year has 365 days, so that all windows begin at multiples of their unit since
// 1970.
const (
	UnitUnknown Unit = 0
	Second      Unit = 1
	Minute      Unit = 2
	Hour        Unit = 3
	Day         Unit = 4
	Month       Unit = 5
	Year        Unit = 6
	Week        Unit = 7
)

const day = 24 * time.Hour

var units = [...]struct {
	name   string
	period time.Duration
}{
	UnitUnknown: {"unknown", 0},
	Second:      {"second", time.Second},
	Minute:      {"minute", time.Minute},
	Hour:        {"hour", time.Hour},
	Day:         {"day", day},
	Month:       {"month", 30 * day},
	Year:        {"year", 365 * day},
	Week:        {"week", 7 * day},
}

// Period returns the length of the unit, 0 if it is unknown.
func (u Unit) Period() time.Duration {
	if int(u) < len(units) {
		return units[u].period
	}
	return 0
}

func (u Unit) String() string {
	if int(u) < len(units) {
		return units[u].name
	}
	return "unit " + strconv.Itoa(int(u))
}

// ParseUnit parses the name of a unit, ignoring case. The error is a *headgate.InputError.
func ParseUnit(name string) (Unit, error) {
	for u := Second; int(u) < len(units); u++ {
		if strings.EqualFold(units[u].name, name) {
			return u, nil
		}
	}
	return UnitUnknown, &headgate.InputError{
		Err: headgate.ErrInvalidLimit, Field: "unit", Value: rules.Quote(name),
		Want: "second, minute, hour, day, week, month or year",
	}
}

// unitOf returns the unit with the given period, or UnitUnknown if there is none.
func unitOf(period time.Duration) Unit {
	for u := Second; int(u) < len(units); u++ {
		if units[u].period == period {
			return u
		}
	}
	return UnitUnknown
}
