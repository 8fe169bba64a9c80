"""What people really write: public collections of scripts and results, read by the product."""
