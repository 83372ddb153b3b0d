"""Models that no search makes much faster: does a job say so?"""
