package machine

// Tells says whether a share is that of these letters. loose: its times are bounds only.
func (s *letterShare) Tells(of letterShare, loose bool) bool {
	return s.Count == of.Count && (*s == of || loose && s.First <= of.First && s.Last >= of.Last)
}
