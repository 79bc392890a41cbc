"""What `train` and `resume` do first: check the settings, then begin a run or go on with one."""
