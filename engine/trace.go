package engine

import (
	"context"

	"github.com/headgate/headgate/rules"
)

// A Phase is a part of a decision.
type Phase uint8

// The phases.
const (
	Matching Phase = iota // finding the rules that match
	Taking                // taking from the limits of these rules
)

var phaseNames = [...]string{Matching: "match", Taking: "take"}

func (p Phase) String() string { return enumName(phaseNames[:], uint8(p)) }

// A TraceFunc is called when a phase of a decision begins. The phase uses the returned context. When the phase ends,
// end is called, unless it is nil, with the verdict so far and the error of the phase. It must not retain the verdict.
// The verdict is nil if the phase takes units for several requests of a Batch at once.
type TraceFunc func(ctx context.Context, p Phase) (_ context.Context, end func(*Verdict, error))

// matchTraced calls match, and Config.Trace before it.
func (v *Verdict) matchTraced(ctx context.Context, s rules.Subject, id string) error {
	_, end := v.engine.config.Trace(ctx, Matching)
	err := v.match(s, id)
	if end != nil {
		end(v, err)
	}
	return err
}

// takeTraced calls takeSimple or, if store is noStore, take, and Config.Trace before it.
func (v *Verdict) takeTraced(ctx context.Context, o *DecideOptions, store int8) error {
	ctx, end := v.engine.config.Trace(ctx, Taking)
	var err error
	if store == noStore {
		err = v.take(ctx, o)
	} else {
		err = v.takeSimple(ctx, o, store)
	}
	if end != nil {
		end(v, err)
	}
	return err
}
