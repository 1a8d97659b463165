package limiters

import (
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// A Limiter decides whether one more request of a key may pass.
type Limiter interface {
	Allow(key string) bool
}

// A Counted contender reports how large its table is, and whether it has lost a key.
type Counted interface {
	Table() harness.TableSize
}

// A Stepping contender counts the steps of rehashing and sweeping, and those that took more than 100 µs.
type Stepping interface {
	Steps() (all, long int64)
}

// A Quota is a limit that all contenders support: count units per period, all of which may be taken at once.
type Quota struct {
	Count  int
	Period time.Duration
}

// Interval is the time in which one unit is restored.
func (q Quota) Interval() time.Duration { return q.Period / time.Duration(q.Count) }

// perSecond returns the rate as a float, for limiters that need one.
func (q Quota) perSecond() float64 { return float64(q.Count) / q.Period.Seconds() }

// Quotas are the quotas of the runs. With steady, a unit takes 432 s to be restored and no window ends. So no key is
// dead or swept, and only decisions on live keys are measured. With open, two cores cannot make enough requests to be
// denied.
var Quotas = map[string]Quota{
	"steady": {Count: 100, Period: 12 * time.Hour},
	"open":   {Count: 50_000, Period: time.Millisecond},
}

// An Entry is a contender that can be created.
type Entry struct {
	// Name is short and unique, for flags; title is for tables.
	Name, Title string
	// Module is the module whose version is reported. It is empty for code of this package.
	Module string
	Role   harness.Role
	// Single is set if the contender has only one counter, whatever the key.
	Single bool
	// KeepsKeys is set if the contender keeps the strings of keys. Other contenders get keys in a reused buffer, so that
	// the harness creates no garbage in their process.
	KeepsKeys bool
	// Waits is set if the contender makes callers wait and denies no request.
	Waits bool
	// Variant is set for a second way to use a contender. Only its speed is measured.
	Variant bool
	// Make returns a contender for about the given number of keys.
	Make func(q Quota, keys int) (Limiter, error)
}

// Entries returns all contenders that run in one process.
func Entries() []Entry {
	list := []Entry{
		{Name: "loop", Title: "the loop alone", Role: harness.Loop, Make: newLoop},
		{Name: "floor", Title: "floor", Role: harness.Floor, Make: NewFloorTable},
		{Name: "floor-large", Title: "floor, large pages", Role: harness.Floor, Variant: true, Make: newFloorLargePages},
		{Name: "floor-single", Title: "floor, one counter", Role: harness.Floor, Single: true, Make: newFloorSingle},
	}
	list = append(list, headgateEntries()...)
	list = append(list, xtimeEntries()...)
	list = append(list, jujuEntries()...)
	return append(list, goLimiterEntry(), throttledEntry(), ululeEntry(), httprateEntry(), tollboothEntry(), uberEntry())
}

// EntryNamed returns the entry with a name.
func EntryNamed(list []Entry, name string) (Entry, error) {
	for _, e := range list {
		if e.Name == name {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("no contender is named %q", name)
}

// loopAlone reads the key and decides nothing. It shows the harness's share of a contender's time.
type loopAlone struct{}

func newLoop(Quota, int) (Limiter, error) { return loopAlone{}, nil }

func (loopAlone) Allow(key string) bool { return key[len(key)-1] != 0 }

// Describe formats a quota for the report.
func Describe(q Quota) string {
	period := q.Period.String()
	period = strings.TrimSuffix(strings.TrimSuffix(period, "0s"), "0m")
	return fmt.Sprintf("%s in %s", harness.Grouped(fmt.Sprint(q.Count)), period)
}

// The harness finds these interfaces by type assertions, which would not notice a misspelled method.
var (
	_ Counted  = (*floorTable)(nil)
	_ Counted  = (*headgateStore)(nil)
	_ Stepping = (*headgateStore)(nil)
)
