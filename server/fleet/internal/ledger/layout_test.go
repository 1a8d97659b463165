package ledger

import (
	"testing"
	"unsafe"

	"github.com/headgate/headgate/algorithm"
)

func TestWhatADecisionNeedsIsInTwoLinesOfTheCache(t *testing.T) {
	var r record
	if got := unsafe.Offsetof(r.usage) + unsafe.Sizeof(algorithm.Pair{}); got > 128 {
		t.Errorf("what a decision needs ends at byte %d, want at most 128", got)
	}
	if got := unsafe.Sizeof(r); got > 384 {
		t.Errorf("a record takes %d bytes, want at most 384", got)
	}
	t.Logf("a record takes %d bytes, and %d for each peer", unsafe.Sizeof(r), unsafe.Sizeof(peerTotal{}))
}
