package rules

// A ledger is where clients are written down, many on a page: then the system can back their memory with large pages, and
// the garbage collector has few things to look at. What is written stays as it is, for those who still decide by it; the
// memory of a page is free when nobody is left on it.
type ledger struct {
	last  *page
	worn  []*page // much of them is struck out
	count int     // clients that are not, on all pages
}

type page struct {
	clients []registered
	struck  int
	worn    bool
}

// How many clients a page has room for.
const (
	pagePart  = 8       // of all that there are, but
	pageLeast = 16      // no fewer,
	pageMost  = 1 << 17 // no more, and
	pageLarge = 1 << 16 // no fewer where there are half as many already: then it is worth a large page of memory
)

// size returns how large the next page should be.
func (l *ledger) size() int {
	if l.count >= pageLarge/2 {
		return min(max(l.count/pagePart, pageLarge), pageMost)
	}
	return max(l.count/pagePart, pageLeast)
}

// write writes a client down and returns where it stands.
func (l *ledger) write(c *registered) *registered {
	if l.last == nil || len(l.last.clients) == cap(l.last.clients) {
		full := l.last
		l.last = &page{clients: make([]registered, 0, l.size())}
		preferLargePages(l.last.clients[:cap(l.last.clients)])
		if full != nil {
			l.judge(full)
		}
	}
	p := l.last
	p.clients = append(p.clients, *c)
	l.count++
	made := &p.clients[len(p.clients)-1]
	made.page = p
	return made
}

// strike strikes out a client that is no longer found.
func (l *ledger) strike(c *registered) {
	c.page.struck++
	l.count--
	if c.page != l.last {
		l.judge(c.page)
	}
}

// judge says of a full page when so much of it is struck out that those who are left should move.
func (l *ledger) judge(p *page) {
	if !p.worn && p.struck*4 >= len(p.clients) {
		p.worn = true
		l.worn = append(l.worn, p)
	}
}

// turn returns the next page that is worn, nil if there is none.
func (l *ledger) turn() *page {
	last := len(l.worn) - 1
	if last < 0 {
		return nil
	}
	p := l.worn[last]
	l.worn[last] = nil
	l.worn = l.worn[:last]
	return p
}
