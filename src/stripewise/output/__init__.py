"""What an experiment has shown, for people to read and carry away: the HTML report, a still picture, exports."""
