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

// A Counted contender can tell how large its table is and whether it forgot a key that it was to remember.
type Counted interface {
	Table() harness.TableSize
}

// A Stepping contender counts the steps in which it rehashes and sweeps, and those of them that took over 100 µs.
type Stepping interface {
	Steps() (all, long int64)
}

// A Quota is a limit in the words that all contenders share: count units a period, all of which may come at once.
type Quota struct {
	Count  int
	Period time.Duration
}

// Interval is the time in which one unit comes back.
func (q Quota) Interval() time.Duration { return q.Period / time.Duration(q.Count) }

// perSecond is the rate as a float, for limiters that want one.
func (q Quota) perSecond() float64 { return float64(q.Count) / q.Period.Seconds() }

// Quotas are the quotas of the runs. Under steady, one unit takes 432 s to come back and no window ends: keys stay
// live, nothing is due for removal, and what is timed is the decision on a live key. Under open, nothing that two cores
// can ask for is denied.
var Quotas = map[string]Quota{
	"steady": {Count: 100, Period: 12 * time.Hour},
	"open":   {Count: 50_000, Period: time.Millisecond},
}

// An Entry is a contender that can be made.
type Entry struct {
	// Name is short and unique, for flags; title is for tables.
	Name, Title string
	// Module is whose version is printed; empty for what is written here.
	Module string
	Role   harness.Role
	// Single is set if there is one counter, whatever the key.
	Single bool
	// KeepsKeys is set if it holds on to the strings it is given. The others are given strings in a buffer that is
	// used again, so that the harness leaves no garbage in their process.
	KeepsKeys bool
	// Waits is set if it makes callers wait and denies nobody.
	Waits bool
	// Variant is set if it is a second way to use a contender, measured for speed and nothing else.
	Variant bool
	// Make returns a contender for about so many keys.
	Make func(q Quota, keys int) (Limiter, error)
}

// Entries lists everything that can run in one process.
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

// EntryNamed returns the entry of that name.
func EntryNamed(list []Entry, name string) (Entry, error) {
	for _, e := range list {
		if e.Name == name {
			return e, nil
		}
	}
	return Entry{}, fmt.Errorf("no contender is named %q", name)
}

// loopAlone reads the key and decides nothing: what is left of a contender's time when the contender is taken away.
type loopAlone struct{}

func newLoop(Quota, int) (Limiter, error) { return loopAlone{}, nil }

func (loopAlone) Allow(key string) bool { return key[len(key)-1] != 0 }

// Describe formats a quota for the report.
func Describe(q Quota) string {
	period := q.Period.String()
	period = strings.TrimSuffix(strings.TrimSuffix(period, "0s"), "0m")
	return fmt.Sprintf("%s in %s", harness.Grouped(fmt.Sprint(q.Count)), period)
}

// Type assertions find these, so a method of another name would go unnoticed.
var (
	_ Counted  = (*floorTable)(nil)
	_ Counted  = (*headgateStore)(nil)
	_ Stepping = (*headgateStore)(nil)
)
