"""What finding and proving a gain inside one launch takes: honesty, real programs, kills, costs."""
