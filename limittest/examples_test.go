package limittest_test

import "testing"

func TestTheExampleOfRunAlgorithm(t *testing.T) { testCooldown(t) }

func TestTheExampleOfSynctest(t *testing.T) { testDailyQuota(t) }
