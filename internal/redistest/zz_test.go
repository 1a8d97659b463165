package redistest
import ("testing";"time")
func TestZZ(t *testing.T){
	st:=time.Now(); lap:=func(n string){ t.Logf("%s %v",n,time.Since(st)); st=time.Now()}
	set := Sentinel(t, SentinelOptions{}); lap("start")
	set.Failover(); lap("failover")
	old:=set.KillPrimary(); lap("kill")
	set.WaitForFailover(old); lap("waitfailover")
	old.Restart(); lap("restart")
	set.Settle(); lap("settle")
	t.Fail()
}
func TestZC(t *testing.T){
	st:=time.Now(); lap:=func(n string){ t.Logf("%s %v",n,time.Since(st)); st=time.Now()}
	c := Cluster(t, ClusterOptions{}); lap("start")
	from:=c.PrimaryOf("a"); to:=c.ReplicaOf(from)
	c.Failover(to); lap("failover")
	c.MoveSlot(SlotOf("a"), without(c.servers[:3],from)[0]); lap("move")
	old:=c.KillPrimaryOf("b"); lap("kill")
	c.WaitForFailover("b",old); lap("waitfailover")
	old.Restart(); lap("restart")
	c.Settle(); lap("settle")
}
