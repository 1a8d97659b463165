package fleetredis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet/sharednotes"
)

// Simulations use sharednotes in place of the script.
func TestSharedNotesAreThoseOfTheScript(t *testing.T) {
	t.Parallel()
	_, store := openStandalone(t)
	script := store.NewScript(exchangeLua)
	first := script.Run(t.Context(), redisstore.ScriptCall{Keys: []string{"hg:first"}, Args: []string{"a", "1", "e", ""}})[0]
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	epoch := first.Values[0]
	memory := sharednotes.New(strings.TrimPrefix(epoch, "e"))
	random := rand.New(rand.NewPCG(1, 1))
	for step := range 2000 {
		base := "hg:test" + groupTag(random.IntN(3))
		known := []string{epoch, epoch, epoch, ""}[random.IntN(4)]
		call := redisstore.ScriptCall{
			Keys: []string{base}, Args: []string{fmt.Sprint("node ", random.IntN(4)), fmt.Sprint(random.IntN(20) / 19), "e", known},
		}
		for k := range 1 + random.IntN(4) {
			text := ""
			if random.IntN(3) > 0 {
				text = strings.Repeat("x", 1+random.IntN(20)) + strconv.Itoa(step)
			}
			arg := appendNumber(appendNumber(nil, random.Int64N(int64(step)+2)), time.Hour.Milliseconds())
			call.Keys = append(call.Keys, base+keyName(keyOf(string(rune('a'+k+random.IntN(3))))))
			call.Args = append(call.Args, string(arg)+text)
		}
		reply := script.Run(t.Context(), call)[0]
		if reply.Err != nil {
			t.Fatal(reply.Err)
		}
		got, _ := memory.Run(nil, call.Keys, call.Args, time.Now())
		if got, want := sortedReply(t, got), sortedReply(t, reply.Values); !slices.Equal(got, want) {
			t.Fatalf("step %d: %q: got %q from memory, want %q", step, call, got, want)
		}
	}
}

// sortedReply returns the notes of a reply in a fixed order, and without their ages, because the clocks are read at
// different times.
func sortedReply(t *testing.T, reply []string) []string {
	t.Helper()
	if len(reply) < replyHead || (len(reply)-replyHead)%replyNote != 0 {
		t.Fatalf("reply %q has %d values", reply, len(reply))
	}
	list := []string{fmt.Sprint(reply[:replyHead])}
	for n := range slices.Chunk(reply[replyHead:], replyNote) {
		if age, err := strconv.Atoi(n[2]); err != nil || age < 0 || age > 60_000 {
			t.Errorf("age %s, want 0 to a minute", n[2])
		}
		list = append(list, fmt.Sprint(n[0], n[1], n[3]))
	}
	slices.Sort(list)
	return list
}

func TestSharedMembersAreThoseOfTheScript(t *testing.T) {
	t.Parallel()
	_, store := openStandalone(t)
	list, err := NewMemberList(store, "")
	if err != nil {
		t.Fatal(err)
	}
	var memory sharednotes.Members
	for _, node := range []string{"a", "b", "a", "c", "b"} {
		live, known, listed, err := list.Beat(t.Context(), node, time.Hour, 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		gotLive, gotKnown, gotListed := memory.Beat(node, time.Hour, 2*time.Hour, time.Now())
		if gotLive != live || gotKnown != known || gotListed != listed {
			t.Errorf("%s: %d live, %d known, listed %v; want %d, %d and %v", node, gotLive, gotKnown, gotListed, live, known, listed)
		}
	}
}
