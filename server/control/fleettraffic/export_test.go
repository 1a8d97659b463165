package fleettraffic

// WaitLoaded waits until the statistics of the last days are loaded.
func (s *Store) WaitLoaded() { s.loading.Wait() }
