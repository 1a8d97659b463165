package limittest_test

import "testing"

func TestTheExampleOfRunAlgorithm(t *testing.T) { testCooldown(t) }
