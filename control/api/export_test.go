package api

// SetImportChunk sets how many clients are imported in one change.
func (s *Server) SetImportChunk(n int) { s.importChunk = n }
