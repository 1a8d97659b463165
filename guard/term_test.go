package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// kept returns how many terms are known, with those that are over.
func (s *terms) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.live)
	for one := s.began.Load(); one != nil; one = one.next {
		n++
	}
	return n
}

func TestATermEndsAtItsDeadlineNotBeforeAndSaysWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTerms(false, DefaultDeadline)
		now := time.Now()
		long := s.begin(context.Background(), nil, now, now.Add(30*time.Millisecond))
		short := s.begin(t.Context(), nil, now, now.Add(7*time.Millisecond))
		if d, ok := short.Deadline(); !ok || !d.Equal(now.Add(7*time.Millisecond)) {
			t.Errorf("got deadline %v, %v", d, ok)
		}
		for _, one := range []struct {
			t    *term
			want time.Duration
		}{{short, 7 * time.Millisecond}, {long, 30 * time.Millisecond}} {
			if err := one.t.Err(); err != nil {
				t.Errorf("got %v before its end", err)
			}
			<-one.t.Done()
			if got := time.Since(now); got != one.want {
				t.Errorf("ended after %v, want %v", got, one.want)
			}
			if err := one.t.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			s.end(one.t)
		}
		if n := s.kept(); n != 0 {
			t.Errorf("%d terms are left", n)
		}
	})
}

func TestATermEndsSoonAfterItsCallersContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTerms(false, DefaultDeadline)
		ctx, cancel := context.WithCancel(context.Background())
		now := time.Now()
		own := s.begin(ctx, nil, now, now.Add(time.Hour))
		others := s.begin(context.Background(), nil, now, now.Add(time.Hour))
		time.Sleep(time.Minute + callerLook/2)
		if err := own.Err(); err != nil {
			t.Errorf("got %v before its end", err)
		}
		cancel()
		given := time.Now()
		<-own.Done()
		if late := time.Since(given); late > callerLook {
			t.Errorf("ended %v after its caller's context, want at most %v", late, callerLook)
		}
		if err := own.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if err := others.Err(); err != nil {
			t.Errorf("another's ended too: %v", err)
		}
		s.end(own)
		s.end(others)
	})
}

func TestATermThatIsOverEndsWhatWasMadeOfIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTerms(false, DefaultDeadline)
		type key struct{}
		now := time.Now()
		own := s.begin(context.WithValue(context.Background(), key{}, "value"), nil, now, now.Add(time.Hour))
		child, cancel := context.WithTimeout(own, 2*time.Hour)
		defer cancel()
		if got := child.Value(key{}); got != "value" {
			t.Errorf("got value %v", got)
		}
		if d, _ := child.Deadline(); !d.Equal(now.Add(time.Hour)) {
			t.Errorf("got deadline %v, want the term's", d)
		}
		s.end(own)
		<-child.Done()
		if err := child.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		if time.Since(now) > 0 {
			t.Error("it took a while")
		}
	})
}

func TestTermsThatAreOverAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTerms(false, DefaultDeadline)
		now := time.Now()
		stays := s.begin(context.Background(), nil, now, now.Add(time.Hour))
		for range 100 * manyTerms {
			s.end(s.begin(context.Background(), nil, now, now.Add(time.Hour)))
		}
		if n := s.kept(); n > 1+manyTerms {
			t.Errorf("%d terms are kept, want the one that is under way and at most %d others", n, manyTerms)
		}
		if err := stays.Err(); err != nil {
			t.Errorf("that one has ended: %v", err)
		}
		<-stays.Done()
		if got := time.Since(now); got != time.Hour {
			t.Errorf("it ended after %v, want %v", got, time.Hour)
		}
		if n := s.kept(); n != 0 {
			t.Errorf("%d terms are left", n)
		}
	})
}

func TestTermsOfManyCallersEndOnTime(t *testing.T) {
	s := newTerms(false, DefaultDeadline)
	const callers, each, life = 16, 200, 5 * time.Millisecond
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for i := range each {
				now := time.Now()
				switch one := s.begin(ctx, nil, now, now.Add(life)); {
				case i%20 != c%20:
					s.end(one)
					if err := one.Err(); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a call that is over: got %v", err)
					}
				default:
					<-one.Done() // by itself
					if err, took := one.Err(), time.Since(now); !errors.Is(err, context.DeadlineExceeded) || took < life {
						t.Errorf("got %v after %v, want %v after %v", err, took, context.DeadlineExceeded, life)
					}
				}
			}
		})
	}
	group.Wait()
}

func TestATermThatIsOverIsUsedAgainUnlessItHasToldThatItEnded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTerms(true, DefaultDeadline)
		now := time.Now()
		told := make(map[*term]bool)
		for range 3 {
			late := s.begin(context.Background(), nil, now, now.Add(time.Millisecond))
			<-late.Done()
			s.end(late)
			told[late] = true
		}
		known, again := make(map[*term]bool), 0
		for range 10 * manyTerms {
			now = time.Now()
			one := s.begin(t.Context(), nil, now, now.Add(time.Hour))
			if told[one] {
				t.Fatal("a term that has told that it ended is used again")
			}
			if known[one] {
				again++
			}
			known[one] = true
			select {
			case <-one.Done():
				t.Fatal("it has ended before it began")
			default:
			}
			if d, _ := one.Deadline(); one.Err() != nil || !d.Equal(now.Add(time.Hour)) {
				t.Fatalf("it begins with error %v and deadline %v, want none and %v", one.Err(), d, now.Add(time.Hour))
			}
			s.end(one)
		}
		if again == 0 {
			t.Error("no term was used again")
		}
	})
}

// Those that are used again end for nobody but who has them.
func TestTermsThatAreUsedAgainEndOnTimeForManyCallers(t *testing.T) {
	s := newTerms(true, DefaultDeadline)
	const callers, each, life = 16, 500, 5 * time.Millisecond
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := range each {
				now := time.Now()
				one := s.begin(context.Background(), nil, now, now.Add(life))
				if i%50 == c {
					<-one.Done() // by itself
				}
				err, took := one.Err(), time.Since(now)
				if err != nil && (took < life || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("got %v after %v, want none before %v", err, took, life)
				}
				s.end(one)
			}
		})
	}
	group.Wait()
}

// Who looks at the terms may lose his core meanwhile. Calls begin all the same, and end on time.
func TestATermBeginsWhileOthersAreLookedAt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTerms(false, DefaultDeadline)
		s.mu.Lock() // as who looks does, and has seen all who began before
		now := time.Now()
		long := s.begin(context.Background(), nil, now, now.Add(30*time.Millisecond))
		short := s.begin(context.Background(), nil, now, now.Add(7*time.Millisecond))
		for range manyTerms { // of whom one would look too
			s.end(s.begin(context.Background(), nil, now, now.Add(time.Hour)))
		}
		s.mu.Unlock()
		s.settle()
		<-short.Done()
		if got := time.Since(now); got != 7*time.Millisecond {
			t.Errorf("ended after %v, want 7ms", got)
		}
		<-long.Done()
		if got := time.Since(now); got != 30*time.Millisecond {
			t.Errorf("ended after %v, want 30ms", got)
		}
	})
}

// When callers wait in a long line, to see who has waited for too long is not done again for every few that come: it would take
// the longer the longer the line is, so that it never gets shorter.
func TestALongLineIsSeldomLookedAt(t *testing.T) {
	const line = 1 << 16
	s := newTerms(true, time.Hour)
	now := time.Now()
	looks, due := 0, s.due.Load()
	var live []*term
	for range line {
		live = append(live, s.begin(context.Background(), nil, now, now.Add(time.Hour)))
		if next := s.due.Load(); next != due {
			looks, due = looks+1, next
		}
	}
	if looks < 2 || looks > 20 { // each time the line is twice as long: 8 or so
		t.Errorf("%d looks at a line of %d, want from 2 to 20", looks, line)
	}
	for _, term := range live {
		s.end(term)
	}
	for range 2 * line { // those that are over are forgotten all the same
		s.end(s.begin(context.Background(), nil, now, now.Add(time.Hour)))
	}
	if got := len(s.live); got > manyTerms {
		t.Errorf("%d terms are remembered, want at most %d", got, manyTerms)
	}
	s.timer.Stop()
}
